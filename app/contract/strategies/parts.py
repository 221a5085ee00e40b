"""Strategies that consist of inner searches: passes, stages and parts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from app.contract import Contract
from app.contract.calls import Rates
from app.contract.drafts import LONGEST_TEXT, Instructions, PartName, is_long, locked_spans
from app.contract.errors import FieldConflict
from app.contract.judgement import AUTO, Criterion, Critics
from app.contract.limits import Threshold
from app.contract.object_drafts import ObjectText
from app.contract.reviews import ReviewPlan
from app.contract.sections import LONGEST_PART, MOST_SECTIONS, items_of, parts_of, split
from app.contract.strategies import DEEPEST, LanguageNeed, Strategy
from app.contract.strategies.loops import DEFAULT
from app.contract.validators import AnyValidator, ItemValidators
from app.contract.values import value

if TYPE_CHECKING:
    from app.contract.requests import RefinementRequest
    from app.contract.strategies import AnyStrategy

UNWRITTEN = ""
"""Stands for a draft of which nothing is known yet but that there will be one."""

BODY = "body/"
"""What the scopes within a body begin with where they could be those of its parts."""

UNTIL = "until"
"""The scope of the validators that say when parts are enough."""

USUAL_SECTIONS = 6
"""Of an outline whose sections are written side by side."""

Focus = Literal["structure", "content", "style", "facts", "format"]
OwnIterations = Annotated[
    int, Field(ge=1, le=50, description="Maximum number of drafts written and judged in it.")
]
OwnThreshold = Annotated[
    Threshold | None, Field(description="Score that is good enough for it; the request's if null.")
]

OwnValidators = Annotated[
    tuple[AnyValidator, ...],
    Field(max_length=10, description="Checks of its drafts; those of the request check the whole."),
]

Body = Annotated["AnyStrategy", Field(description="The strategy that refines it.")]

OwnReview = Annotated[
    ReviewPlan | None,
    Field(
        description="When reviewers are asked about its drafts; `before_completion`: once, before"
        " what follows it begins. What they reject is not used."
    ),
]

FOCUSES: dict[Focus, Criterion] = {
    "structure": Criterion(
        name="structure",
        description="Every part stands where a reader needs it; nothing is said twice.",
    ),
    "content": Criterion(
        name="content", description="Everything the task asks for is there, and nothing else."
    ),
    "style": Criterion(
        name="style", description="Clear, concise and plain: short sentences, active verbs."
    ),
    "facts": Criterion(
        name="facts",
        description="Every statement of fact is supported by the task or a context document.",
    ),
    "format": Criterion(
        name="format", description="Layout, headings and spelling are as the task wants them."
    ),
}
"""The default criterion of a pass, by its focus."""


class WholeTextWork(Contract):
    """The work of one stage or pass on the whole text."""

    instructions: Instructions = ""
    validators: OwnValidators = ()
    threshold: OwnThreshold = None
    review: OwnReview = None
    body: Body = DEFAULT


class Pass(WholeTextWork):
    """One pass over the whole text with a single focus."""

    focus: Focus
    criteria: tuple[Criterion, ...] = Field((), max_length=10)
    max_iterations: OwnIterations = 1

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.focus

    def judged_on(self) -> tuple[Criterion, ...]:
        """Return its criteria, or the default criterion of its focus."""
        return self.criteria or (FOCUSES[self.focus],)

    def calls(self, rates: Rates, before: str | None) -> int:
        """Return the maximum number of model calls of the pass; `before` is the text before it."""
        return self.body.calls(rates, self.max_iterations, before)

    def draft(self, before: str | None) -> str | None:
        """Return the draft that its body is given; `before` is the text before the pass."""
        return before

    @model_validator(mode="after")
    def _has_iterations_enough(self) -> Self:
        _check_body(self.body, self.max_iterations)
        return self


class _OfItems(Contract):
    """What strategies have in common that name inner searches: passes, stages or parts."""

    needs_language: ClassVar[LanguageNeed | None] = None
    judges_criteria: ClassVar[bool] = True

    items: ClassVar[str]
    """The name of the field that holds them."""

    def _items(self) -> tuple[Any, ...]:
        found: tuple[Any, ...] = getattr(self, self.items)
        return found

    def titles(self) -> Iterator[tuple[str, str]]:
        yield from ((f"{self.items}/{item.name}", item.instructions) for item in self._items())

    def thresholds(self) -> Iterator[tuple[str, float]]:
        for item in self._items():
            if item.threshold is not None:
                yield f"{self.items}/{item.name}", item.threshold

    def can_differ(self, max_iterations: int, *, has_draft: bool) -> bool:
        return has_draft


class _InOrder(_OfItems):
    """What strategies have in common whose inner searches follow each other: passes or stages."""

    def _drafts(self, draft: str | None) -> "Iterator[tuple[Pass | Stage, str | None]]":
        """Yield each item with the text before it; `draft` is the client's."""
        for index, item in enumerate(self._items()):
            yield item, UNWRITTEN if index else draft

    def stage_paths(self) -> tuple[str, ...]:
        return tuple(f"{self.items}/{item.name}" for item in self._items())

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        inner = sum(item.calls(rates, before) for item, before in self._drafts(draft))
        return _as_a_whole(rates, draft) + inner

    def inner(self) -> tuple[Strategy, ...]:
        return tuple(item.body for item in self._items())

    def escalates(self, max_iterations: int) -> bool:
        return any(item.body.escalates(item.max_iterations) for item in self._items())

    def reviews(self) -> Iterator[tuple[str, ReviewPlan]]:
        for index, item in enumerate(self._items()):
            yield from _reviews_of(f"/{self.items}/{index}", item.review, item.body)

    def conflicts(self, request: "RefinementRequest") -> Iterator[FieldConflict]:
        *_, last = self._items()
        for index, (item, before) in enumerate(self._drafts(request.draft)):
            checks = (*item.validators, *(request.validators if item is last else ()))
            at, draft = f"/{self.items}/{index}", item.draft(before)
            own = _Item(at, draft, item.criteria, checks, item.max_iterations)
            yield from own.conflicts(request, item.body)

    def rubrics(self) -> tuple[tuple[Criterion, ...], ...]:
        own = (criteria for item in self._items() if (criteria := item.judged_on()))
        return (*own, *(rubric for item in self._items() for rubric in item.body.rubrics()))

    def item_validators(self) -> tuple[ItemValidators, ...]:
        named = [(item.name, item.validators, item.body) for item in self._items()]
        return _own(self.items, named)

    def lacks(self, path: str, draft: str | None) -> tuple[str, ...]:
        later = [*self.stage_paths()]
        for item, before in self._drafts(draft):
            at, *later = later
            if _is_in(path, at):
                return (*_lacks_within(at, path, item.body, item.draft(before)), *later)
        return ()

    def replies_in_prompt(self, draft: str | None) -> int:
        return max(body.replies_in_prompt(UNWRITTEN) for body in self.inner())


class MultiPassStrategy(_InOrder, Strategy):
    """Improve the text in passes that are scheduled beforehand, each with its own focus.

    A later pass is also judged, with a floor, on the criteria that earlier passes met, and must not
    undo them. The result is judged on the request's own criteria. (Multi-pass editing: Du et al.,
    "Read, Revise, Repeat", arXiv 2204.03685.)
    """

    kind: Literal["multi_pass"]
    passes: tuple[Pass, ...] = Field(
        default_factory=lambda: tuple(Pass(focus=focus) for focus in FOCUSES),
        min_length=1,
        max_length=10,
        description="Without any there is one for each focus.",
    )

    items: ClassVar[str] = "passes"

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        _unique("passes", [each.focus for each in self.passes])
        criteria = (criterion for each in self.passes for criterion in each.judged_on())
        _unique("criteria of the passes", [criterion.name for criterion in criteria])
        return self


MOST_WRITTEN = 30
"""Sections that a stage writes at most: neighbours share one where there would be more."""


class Stage(WholeTextWork):
    """One stage: it writes a new text from the result of the previous stage, or revises that."""

    name: PartName
    mode: Literal["write", "revise"] = "write"
    criteria: tuple[Criterion, ...] = Field(
        (), max_length=20, description="Criteria of the stage; the request's if empty."
    )
    max_iterations: OwnIterations = 2
    sections: bool = Field(
        False,
        description="Write one text per section of the result of the previous stage, in parallel,"
        " and join them. Sections begin at headings, else at list items, else at paragraphs.",
    )

    @model_validator(mode="after")
    def _sections_are_written(self) -> Self:
        if self.sections and self.mode == "revise":
            raise ValueError("`sections` requires the mode `write`")
        _check_body(self.body, self.max_iterations)
        return self

    def judged_on(self) -> tuple[Criterion, ...]:
        """Return its criteria, none if it is judged on the request's."""
        return self.criteria

    def calls(self, rates: Rates, before: str | None) -> int:
        """Return the maximum number of model calls of the stage; `before` is the text before it."""
        sections = USUAL_SECTIONS if rates.is_usual else MOST_WRITTEN
        written = self.sections * sections * rates.ask
        return written + self.body.calls(rates, self.max_iterations, self.draft(before))

    def draft(self, before: str | None) -> str | None:
        """Return the draft that its body is given; `before` is the text before the stage."""
        if self.mode == "revise":
            return before
        return UNWRITTEN if self.sections else None


def _stages() -> tuple[Stage, ...]:
    """Return the stages of a plan that names none."""
    return (
        Stage(
            name="outline",
            instructions="write only an outline: a list with one line for each point of the text",
            criteria=(
                Criterion(
                    name="outline",
                    description="Every point the task needs, in an order that a reader can follow.",
                ),
            ),
        ),
        Stage(name="draft", instructions="write the whole text along the outline"),
        Stage(
            name="polish",
            mode="revise",
            instructions="polish the language and change nothing that is said",
        ),
    )


class StepwiseStrategy(_InOrder, Strategy):
    """Work in ordered stages, each verified on its own criteria before the next begins.

    A stage that fails or does not pass is the last: the result is that of the last verified stage,
    judged on the request's own criteria. (Decomposed prompting, arXiv 2210.02406; outline first,
    sections in parallel: Skeleton-of-Thought, arXiv 2307.15337.)
    """

    kind: Literal["stepwise"]
    stages: tuple[Stage, ...] = Field(
        default_factory=_stages,
        min_length=1,
        max_length=10,
        description="Without any they are outline, draft and polish.",
    )

    items: ClassVar[str] = "stages"

    @model_validator(mode="after")
    def _stages_follow(self) -> Self:
        _unique("stages", [stage.name for stage in self.stages])
        for stage in self.stages:
            _unique(f"criteria of {stage.name}", [criterion.name for criterion in stage.criteria])
        if self.stages[0].sections:
            raise ValueError("`sections` is not supported by the first stage: none comes before it")
        return self

    def conflicts(self, request: "RefinementRequest") -> Iterator[FieldConflict]:
        if request.draft is None and self.stages[0].mode == "revise":
            yield FieldConflict("/draft", "`draft` is required: the first stage revises it")
        yield from super().conflicts(request)

    def replies_in_prompt(self, draft: str | None) -> int:
        written = MOST_WRITTEN if any(stage.sections for stage in self.stages) else 1
        return max(written, super().replies_in_prompt(draft))

    def writes_anew(self) -> bool:
        return any(stage.mode == "write" for stage in self.stages) or super().writes_anew()


class Part(Contract):
    """One part of a larger text, such as a chapter."""

    name: PartName
    instructions: Annotated[Instructions, Field(min_length=1)]
    criteria: tuple[Criterion, ...] = Field(
        (), max_length=20, description="Criteria of the part; the request's if empty."
    )
    validators: OwnValidators = ()
    threshold: OwnThreshold = None


AUTO_PARTS: Final = "auto"
"""Instead of parts: an outline says which there are, or a criterion when there are enough."""

Parts = Annotated[
    Annotated[tuple[Part, ...], Field(max_length=30), Tag("listed")]
    | Annotated[Literal["auto"], Tag(AUTO_PARTS)],
    Discriminator(lambda given: AUTO_PARTS if isinstance(given, str) else "listed"),
    Field(description="Without any they are the sections of `draft`. `auto`: those of an outline."),
]


class Enough(Contract):
    """When parts are enough: all that is given holds of the text so far.

    A critic is asked only once the rest holds.
    """

    min_parts: int | None = Field(None, ge=1, le=30, description="Minimum number of parts.")
    validators: tuple[AnyValidator, ...] = Field(
        (), max_length=10, description="Checks that the text so far passes; `warn` does not count."
    )
    criterion: Criterion | None = Field(
        None,
        description="What critics find that it meets, with its floor or else the threshold of the"
        " request.",
    )

    @model_validator(mode="after")
    def _says_when(self) -> Self:
        if self.min_parts is None and not self.validators and self.criterion is None:
            raise ValueError("`min_parts`, `validators` or `criterion` is required")
        return self

    def in_words(self) -> str:
        """Return what holds of a finished text; it completes "The text ..."."""
        words = [] if self.min_parts is None else [f"has at least {self.min_parts} parts"]
        words += [said for validator in self.validators if (said := validator.in_words())]
        if (end := self.criterion) is not None:
            words.append(f"meets {end.name}" + (f": {end.description}" if end.description else ""))
        return ", and ".join(words)


def _form_of_end(given: Any) -> str:
    is_given = isinstance(given, Enough) or (
        isinstance(given, Mapping) and not given.keys().isdisjoint(Enough.model_fields)
    )
    return "enough" if is_given else "criterion"


Until = Annotated[
    Annotated[Criterion, Tag("criterion")] | Annotated[Enough, Tag("enough")],
    Discriminator(_form_of_end),
]


class NestedStrategy(_OfItems, Strategy):
    """Refine n parts, each with another strategy to its own threshold, and join them.

    Without `parts` they are the sections of the given draft. The joined text is judged as a whole,
    one of more than 200,000 characters by summaries of its parts and by the facts that they share.
    The limits on cost, tokens and time apply to all parts together. (Recursive reprompting and
    revision, Re3, arXiv 2210.06774.)
    """

    kind: Literal["nested"]
    parts: Parts = ()
    order: Literal["together", "sequence"] = Field(
        "together",
        description="`together`: all at once; `sequence`: one after the other, each of which is"
        " shown those before it, long ones summed up.",
    )
    outline: str | None = Field(
        None,
        min_length=1,
        max_length=20_000,
        description='With `"parts": "auto"`: an outline, a list item or a heading for each part.'
        " Without it, and without `until`, a model writes one.",
    )
    until: Until | None = Field(
        None,
        description='With `"parts": "auto"` and `"order": "sequence"`: parts are written until they'
        " are enough: until critics find that the text meets a criterion, or until there are"
        " `min_parts`, `validators` pass and a `criterion` is met, as far as each is given.",
    )
    max_parts: int = Field(10, ge=1, le=30, description='Maximum number of parts with `"auto"`.')
    body: Body = DEFAULT
    max_iterations: OwnIterations = 3
    review: OwnReview = None
    separator: str = Field("\n\n", max_length=100, description="Text between two parts.")

    items: ClassVar[str] = "parts"
    rewrites: ClassVar[bool] = False
    longest_draft: ClassVar[int] = LONGEST_TEXT

    @model_validator(mode="after")
    def _parts_can_be_played(self) -> Self:
        _unique("parts", [part.name for part in self.named()])
        _check_body(self.body, self.max_iterations)
        is_auto = self.parts == AUTO_PARTS
        if not is_auto and (self.outline is not None or self.until is not None):
            raise ValueError('`outline` and `until` require `"parts": "auto"`')
        if self.outline is not None and self.until is not None:
            raise ValueError("`outline` and `until` exclude each other: each says which parts")
        if self.until is not None and self.order != "sequence":
            raise ValueError('`until` requires `"order": "sequence"`')
        if (enough := self.enough()) and (enough.min_parts or 0) > self.max_parts:
            raise ValueError(
                f"until needs {enough.min_parts} parts; `max_parts` allows {self.max_parts}"
            )
        found = 0 if self.outline is None else len(items_of(self.outline))
        if found > self.max_parts:
            raise ValueError(f"the outline has {found} parts; `max_parts` allows {self.max_parts}")
        return self

    def named(self) -> tuple[Part, ...]:
        """Return the parts that the request lists."""
        return () if isinstance(self.parts, str) else self.parts

    def enough(self) -> Enough | None:
        """Return when open-ended parts are enough; None if their number is known before."""
        return Enough(criterion=self.until) if isinstance(self.until, Criterion) else self.until

    def _end_criterion(self) -> Criterion | None:
        enough = self.enough()
        return None if enough is None else enough.criterion

    def read_in_parts(self, draft: str | None) -> tuple[str, ...]:
        return parts_of(draft).texts if draft is not None and is_long(draft) else ()

    def language_need(self) -> LanguageNeed | None:
        if self.order == "sequence":
            return LanguageNeed("sums up what stands before a part", roles=("generator",))
        return super().language_need()

    def prepared(self) -> int:
        return super().prepared() + self._asks_for_an_outline

    @property
    def _asks_for_an_outline(self) -> bool:
        return self.parts == AUTO_PARTS and self.outline is None and self.until is None

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        given = None if draft is None else UNWRITTEN
        part = self.body.calls(rates, self.max_iterations, given)
        number = self._number_of_parts(rates, draft)
        part += rates.judge * (self._end_criterion() is not None)
        summed_up = (number - 1) * rates.ask * (self.order == "sequence")
        asked = rates.ask * self._asks_for_an_outline + summed_up
        if is_long(draft):  # each part is read before and after its revision
            asked += 2 * number * rates.ask
        return _as_a_whole(rates, draft) + asked + number * part

    def _items(self) -> tuple[Part, ...]:
        return self.named()

    def inner(self) -> tuple[Strategy, ...]:
        return (self.body,)

    def escalates(self, max_iterations: int) -> bool:
        return self.body.escalates(self.max_iterations)

    def reviews(self) -> Iterator[tuple[str, ReviewPlan]]:
        yield from _reviews_of("", self.review, self.body)

    def conflicts(self, request: "RefinementRequest") -> Iterator[FieldConflict]:
        if bool(self.parts) == (request.draft is not None):
            yield FieldConflict(
                "/strategy/parts",
                "nested requires either a `draft`, whose sections it refines, or `parts`",
            )
        if isinstance(request.draft, ObjectText):
            yield FieldConflict("/draft", "nested refines the sections of a text, not an object")
        if is_long(request.draft):
            yield from self._too_much_for_a_long_draft(request)
        for index, part in enumerate(self.named()):
            at = f"/parts/{index}"
            own = _Item(at, None, part.criteria, part.validators, self.max_iterations, "/body")
            yield from own.conflicts(request, self.body)
        if not self.named():
            draft = None if request.draft is None else UNWRITTEN
            own = _Item("", draft, (), (), self.max_iterations)
            yield from own.conflicts(request, self.body)

    def _too_much_for_a_long_draft(self, request: "RefinementRequest") -> Iterator[FieldConflict]:
        """Yield what would need the whole of a long draft in one prompt."""
        is_listed = request.criteria == AUTO and request.task is None
        for pointer, is_asked, instead in (
            ("/compare", request.compare, "omit it"),
            ("/outputs", request.outputs, "omit them"),
            ("/review", request.review, "use `strategy.review`, which is about its parts"),
            ("/strategy/order", self.order == "sequence", "use `together`"),
            ("/criteria", is_listed, "list them, or give a task from which they follow"),
        ):
            if is_asked:
                detail = "needs the whole draft in one prompt, for which it is too long"
                yield FieldConflict(pointer, f"{detail}: {instead}")
        kept = locked_spans(request.draft or "", request.locked)
        if any(span.end - span.start > LONGEST_PART for span in kept):
            detail = f"locked texts that overlap have at most {LONGEST_PART} characters together"
            yield FieldConflict("/locked", detail)

    def rubrics(self) -> tuple[tuple[Criterion, ...], ...]:
        return (
            *self.body.rubrics(),
            *(part.criteria for part in self.named() if part.criteria),
            *([(ends,)] if (ends := self._end_criterion()) else []),
        )

    def item_validators(self) -> tuple[ItemValidators, ...]:
        own = _own("parts", [(part.name, part.validators, None) for part in self.named()])
        if (enough := self.enough()) and enough.validators:
            own += (ItemValidators(UNTIL, "/until/validators", enough.validators),)
        above = BODY if self.body.kind == self.kind else ""  # else two have the scope `parts/one`
        return (*own, *_within(self.body, above, ""))

    def replies_in_prompt(self, draft: str | None) -> int:
        given = None if draft is None else UNWRITTEN
        number = self._number_of_parts(Rates(0, 0, 0), draft)
        return number * self.body.replies_in_prompt(given)

    def _number_of_parts(self, rates: Rates, draft: str | None) -> int:
        if self.outline is not None:
            return len(items_of(self.outline))
        if self.parts == AUTO_PARTS:
            return rates.turns(self.max_parts)
        if draft is None:
            return len(self.named())
        if draft == UNWRITTEN:
            return USUAL_SECTIONS if rates.is_usual else MOST_SECTIONS
        if parts := self.read_in_parts(draft):
            return len(parts)
        return len(split(draft).texts)

    def lacks(self, path: str, draft: str | None) -> tuple[str, ...]:
        kind, name = (*path.split("/"), "")[:2]
        if kind != "parts":
            return ()
        if draft is not None:  # the whole is judged first, and no section is taken for it
            return ("parts",)
        if self.parts == AUTO_PARTS:  # their number is not known here
            return ("parts",)
        inner = _lacks_within(f"parts/{name}", path, self.body, None)
        others = tuple(f"parts/{part.name}" for part in self.named() if part.name != name)
        return (*inner, *others)


def _is_in(path: str, at: str) -> bool:
    return f"{path}/".startswith(f"{at}/")


def _lacks_within(at: str, path: str, body: Strategy, draft: str | None) -> tuple[str, ...]:
    """Return what the draft at `path` lacks of the item `at`, whose body is given `draft`."""
    inner = body.lacks(path.removeprefix(f"{at}/"), draft)
    return tuple(f"{at}/{lacking}" for lacking in inner)


def _as_a_whole(rates: Rates, draft: str | None) -> int:
    """Return the calls that judge the client's draft and the result of the inner searches."""
    return rates.judge * (1 if draft is None else 2)


def _reviews_of(
    at: str, review: ReviewPlan | None, body: Strategy
) -> Iterator[tuple[str, ReviewPlan]]:
    if review is not None:
        yield f"{at}/review", review
    yield from ((f"{at}/body{pointer}", plan) for pointer, plan in body.reviews())


def _own(
    items: str, named: Iterable[tuple[str, OwnValidators, Strategy | None]]
) -> tuple[ItemValidators, ...]:
    """Return the validators of items, and those within the body of each."""
    found: list[ItemValidators] = []
    for index, (name, validators, body) in enumerate(named):
        scope, pointer = f"{items}/{name}", f"/{items}/{index}"
        if validators:
            found.append(ItemValidators(scope, f"{pointer}/validators", validators))
        if body is not None:
            found += _within(body, f"{scope}/", pointer)
    return tuple(found)


def _within(body: Strategy, scope: str, pointer: str) -> Iterator[ItemValidators]:
    for own in body.item_validators():
        yield own._replace(scope=f"{scope}{own.scope}", pointer=f"{pointer}/body{own.pointer}")


@value(slots=True)
class _Item:
    """A stage, pass or part, as what its body is given says; `draft` may be `UNWRITTEN`."""

    pointer: str
    draft: str | None
    criteria: tuple[Criterion, ...]
    """Its own; those of the request judge what its body makes as well."""
    validators: tuple[AnyValidator, ...]
    max_iterations: int
    body_at: str | None = None
    """The pointer of its body, if it is not its own."""

    def conflicts(self, request: "RefinementRequest", body: Strategy) -> Iterator[FieldConflict]:
        """Yield the conflicts between the body and what it is given."""
        given = {
            "strategy": body,
            "draft": self.draft,
            "criteria": self.criteria,
            "critics": Critics(),
            "validators": self.validators,
            "max_iterations": self.max_iterations,
            "tools": body.callable_of(request.tools),
        }
        for conflict in body.refused(request.model_copy(update=given)):
            pointer = self._pointer(conflict.pointer)
            yield FieldConflict(pointer, f"{body.kind} as a body: {conflict}")

    def _pointer(self, pointer: str) -> str:
        """Return where a conflict of its body is in the request."""
        at = f"{self.pointer}/body" if self.body_at is None else self.body_at
        if pointer.startswith("/strategy"):
            return f"/strategy{at}{pointer.removeprefix('/strategy')}"
        own = f"/strategy{self.pointer}{pointer}"
        return own if self.pointer and pointer.startswith(OWN) else f"/strategy{at}"


OWN = ("/criteria", "/validators")
"""What an item may have of its own."""


def _check_body(body: Strategy, most: int) -> None:
    """Raise ValueError if a body writes more drafts than an item may have, or is too deep in it."""
    if body.drawn_at_least() > most:
        raise ValueError(
            f"max_iterations must be at least {body.drawn_at_least()}: {body.kind} writes as many"
            " drafts"
        )
    if body.depth() >= DEEPEST:
        raise ValueError(f"strategies may be at most {DEEPEST} deep within each other")


def _unique(what: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise ValueError(f"two {what} have the same name")
