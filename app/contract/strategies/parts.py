"""Strategies that consist of inner searches: passes, stages and parts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from app.contract import Contract
from app.contract.calls import Rates
from app.contract.criteria import Criterion, Critics
from app.contract.drafts import Instructions, PartName
from app.contract.errors import FieldConflict
from app.contract.limits import Threshold
from app.contract.models import ROLES, Role
from app.contract.reviews import ReviewPlan
from app.contract.sections import MOST_SECTIONS, items_of, split
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


class Pass(Contract):
    """One pass over the whole text with a single focus."""

    focus: Focus
    instructions: Instructions = ""
    criteria: tuple[Criterion, ...] = Field((), max_length=10)
    validators: OwnValidators = ()
    threshold: OwnThreshold = None
    max_iterations: OwnIterations = 1
    review: OwnReview = None
    body: Body = DEFAULT

    def judged_on(self) -> tuple[Criterion, ...]:
        """Return its criteria, or the default criterion of its focus."""
        return self.criteria or (FOCUSES[self.focus],)

    @model_validator(mode="after")
    def _has_iterations_enough(self) -> Self:
        _check_body(self.body, self.max_iterations)
        return self


class MultiPassStrategy(Strategy):
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

    needs_language: ClassVar[LanguageNeed | None] = None
    judges_criteria: ClassVar[bool] = True

    def roles(self) -> tuple[Role, ...]:
        return ROLES

    def stage_paths(self) -> tuple[str, ...]:
        return tuple(f"passes/{it.focus}" for it in self.passes)

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        _unique("passes", [it.focus for it in self.passes])
        _unique("criteria of the passes", [c.name for it in self.passes for c in it.judged_on()])
        return self

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        given = [draft, *[UNWRITTEN] * (len(self.passes) - 1)]
        passes = zip(self.passes, given, strict=True)
        return _as_a_whole(rates, draft) + sum(
            it.body.calls(rates, it.max_iterations, text) for it, text in passes
        )

    def titles(self) -> Iterator[tuple[str, str]]:
        yield from ((f"passes/{it.focus}", it.instructions) for it in self.passes)

    def thresholds(self) -> Iterator[tuple[str, float]]:
        yield from _thresholds(self.titles(), self.passes)

    def inner(self) -> tuple[Strategy, ...]:
        return tuple(it.body for it in self.passes)

    def reviews(self) -> Iterator[tuple[str, ReviewPlan]]:
        yield from _reviews("passes", self.passes)

    def conflicts(self, request: "RefinementRequest") -> Iterator[FieldConflict]:
        for index, it in enumerate(self.passes):
            draft = request.draft if index == 0 else UNWRITTEN
            ends = request.validators if it is self.passes[-1] else ()
            checks = (*it.validators, *ends)
            own = _Item(f"/passes/{index}", draft, it.criteria, checks, it.max_iterations)
            yield from own.conflicts(request, it.body)

    def rubrics(self) -> tuple[tuple[Criterion, ...], ...]:
        inner = (rubric for it in self.passes for rubric in it.body.rubrics())
        return (*(it.judged_on() for it in self.passes), *inner)

    def item_validators(self) -> tuple[ItemValidators, ...]:
        return _own("passes", [(it.focus, it.validators, it.body) for it in self.passes])

    def lacks(self, path: str, draft: str | None) -> tuple[str, ...]:
        before = draft
        for it in self.passes:
            at = f"passes/{it.focus}"
            if path.startswith(f"{at}/"):
                return _lacks_within(at, path, it.body, before)
            before = UNWRITTEN
        return ()

    def replies_in_prompt(self, draft: str | None) -> int:
        return max(it.body.replies_in_prompt(UNWRITTEN) for it in self.passes)

    def can_differ(self, max_iterations: int, *, has_draft: bool) -> bool:
        return has_draft


MOST_WRITTEN = 30
"""Sections that a stage writes at most: neighbours share one where there would be more."""


class Stage(Contract):
    """One stage: it writes a new text from the result of the previous stage, or revises that."""

    name: PartName
    mode: Literal["write", "revise"] = "write"
    instructions: Instructions = ""
    criteria: tuple[Criterion, ...] = Field(
        (), max_length=20, description="Criteria of the stage; the request's if empty."
    )
    validators: OwnValidators = ()
    threshold: OwnThreshold = None
    max_iterations: OwnIterations = 2
    sections: bool = Field(
        False,
        description="Write one text per section of the result of the previous stage, in parallel,"
        " and join them. Sections begin at headings, else at list items, else at paragraphs.",
    )
    review: OwnReview = None
    body: Body = DEFAULT

    @model_validator(mode="after")
    def _sections_are_written(self) -> Self:
        if self.sections and self.mode == "revise":
            raise ValueError("`sections` requires the mode `write`")
        _check_body(self.body, self.max_iterations)
        return self

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


class StepwiseStrategy(Strategy):
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

    needs_language: ClassVar[LanguageNeed | None] = None
    judges_criteria: ClassVar[bool] = True

    def roles(self) -> tuple[Role, ...]:
        return ROLES

    def stage_paths(self) -> tuple[str, ...]:
        return tuple(f"stages/{it.name}" for it in self.stages)

    @model_validator(mode="after")
    def _stages_follow(self) -> Self:
        _unique("stages", [it.name for it in self.stages])
        for stage in self.stages:
            _unique(f"criteria of {stage.name}", [it.name for it in stage.criteria])
        if self.stages[0].sections:
            raise ValueError("`sections` is not supported by the first stage: none comes before it")
        return self

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        before = [draft, *[UNWRITTEN] * (len(self.stages) - 1)]
        stages = zip(self.stages, before, strict=True)
        return _as_a_whole(rates, draft) + sum(it.calls(rates, text) for it, text in stages)

    def titles(self) -> Iterator[tuple[str, str]]:
        yield from ((f"stages/{it.name}", it.instructions) for it in self.stages)

    def thresholds(self) -> Iterator[tuple[str, float]]:
        yield from _thresholds(self.titles(), self.stages)

    def inner(self) -> tuple[Strategy, ...]:
        return tuple(it.body for it in self.stages)

    def reviews(self) -> Iterator[tuple[str, ReviewPlan]]:
        yield from _reviews("stages", self.stages)

    def conflicts(self, request: "RefinementRequest") -> Iterator[FieldConflict]:
        if request.draft is None and self.stages[0].mode == "revise":
            yield FieldConflict("/draft", "`draft` is required: the first stage revises it")
        for index, it in enumerate(self.stages):
            draft = it.draft(request.draft if index == 0 else UNWRITTEN)
            ends = request.validators if it is self.stages[-1] else ()
            checks = (*it.validators, *ends)
            own = _Item(f"/stages/{index}", draft, it.criteria, checks, it.max_iterations)
            yield from own.conflicts(request, it.body)

    def rubrics(self) -> tuple[tuple[Criterion, ...], ...]:
        inner = (rubric for it in self.stages for rubric in it.body.rubrics())
        return (*(it.criteria for it in self.stages if it.criteria), *inner)

    def item_validators(self) -> tuple[ItemValidators, ...]:
        return _own("stages", [(it.name, it.validators, it.body) for it in self.stages])

    def lacks(self, path: str, draft: str | None) -> tuple[str, ...]:
        names = [it.name for it in self.stages]
        kind, name = (*path.split("/"), "")[:2]
        if kind != "stages" or name not in names:
            return ()
        at = names.index(name)
        stage, before = self.stages[at], UNWRITTEN if at else draft
        inner = _lacks_within(f"stages/{name}", path, stage.body, stage.draft(before))
        return (*inner, *(f"stages/{it}" for it in names[at + 1 :]))

    def replies_in_prompt(self, draft: str | None) -> int:
        written = MOST_WRITTEN if any(it.sections for it in self.stages) else 1
        return max(written, *(it.body.replies_in_prompt(UNWRITTEN) for it in self.stages))

    def writes_anew(self) -> bool:
        return any(it.mode == "write" for it in self.stages)

    def can_differ(self, max_iterations: int, *, has_draft: bool) -> bool:
        return has_draft


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
        words += [said for it in self.validators if (said := it.in_words())]
        if (it := self.criterion) is not None:
            words.append(f"meets {it.name}" + (f": {it.description}" if it.description else ""))
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


class NestedStrategy(Strategy):
    """Refine n parts, each with another strategy to its own threshold, and join them.

    Without `parts` they are the sections of the given draft. The joined text is judged as a whole.
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

    needs_language: ClassVar[LanguageNeed | None] = None
    rewrites: ClassVar[bool] = False
    judges_criteria: ClassVar[bool] = True

    def roles(self) -> tuple[Role, ...]:
        return ROLES

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
        return _as_a_whole(rates, draft) + asked + number * part

    def titles(self) -> Iterator[tuple[str, str]]:
        yield from ((f"parts/{it.name}", it.instructions) for it in self.named())

    def thresholds(self) -> Iterator[tuple[str, float]]:
        yield from _thresholds(self.titles(), self.named())

    def inner(self) -> tuple[Strategy, ...]:
        return (self.body,)

    def reviews(self) -> Iterator[tuple[str, ReviewPlan]]:
        yield from _reviews_of("", self.review, self.body)

    def conflicts(self, request: "RefinementRequest") -> Iterator[FieldConflict]:
        if bool(self.parts) == (request.draft is not None):
            yield FieldConflict(
                "/strategy/parts",
                "nested requires either a `draft`, whose sections it refines, or `parts`",
            )
        for index, it in enumerate(self.named()):
            at = f"/parts/{index}"
            own = _Item(at, None, it.criteria, it.validators, self.max_iterations, "/body")
            yield from own.conflicts(request, self.body)
        if not self.named():
            draft = None if request.draft is None else UNWRITTEN
            own = _Item("", draft, (), (), self.max_iterations)
            yield from own.conflicts(request, self.body)

    def rubrics(self) -> tuple[tuple[Criterion, ...], ...]:
        return (
            *self.body.rubrics(),
            *(it.criteria for it in self.named() if it.criteria),
            *([(ends,)] if (ends := self._end_criterion()) else []),
        )

    def item_validators(self) -> tuple[ItemValidators, ...]:
        own = _own("parts", [(it.name, it.validators, None) for it in self.named()])
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
        others = tuple(f"parts/{it.name}" for it in self.named() if it.name != name)
        return (*inner, *others)

    def writes_anew(self) -> bool:
        return self.body.writes_anew()

    def can_differ(self, max_iterations: int, *, has_draft: bool) -> bool:
        return has_draft


def _lacks_within(at: str, path: str, body: Strategy, draft: str | None) -> tuple[str, ...]:
    """Return what the draft at `path` lacks of the item `at`, whose body is given `draft`."""
    inner = body.lacks(path.removeprefix(f"{at}/"), draft)
    return tuple(f"{at}/{it}" for it in inner)


def _as_a_whole(rates: Rates, draft: str | None) -> int:
    """Return the calls that judge the client's draft and the result of the inner searches."""
    return rates.judge * (1 if draft is None else 2)


def _thresholds(
    titles: Iterable[tuple[str, str]], items: Iterable["Pass | Stage | Part"]
) -> Iterator[tuple[str, float]]:
    """Yield the path and the threshold of each item that has one."""
    for (path, _), it in zip(titles, items, strict=True):
        if it.threshold is not None:
            yield path, it.threshold


def _reviews(items: str, named: Sequence["Pass | Stage"]) -> Iterator[tuple[str, ReviewPlan]]:
    """Yield the reviews of items, and those within the body of each, with their pointers."""
    for index, it in enumerate(named):
        yield from _reviews_of(f"/{items}/{index}", it.review, it.body)


def _reviews_of(
    at: str, review: ReviewPlan | None, body: Strategy
) -> Iterator[tuple[str, ReviewPlan]]:
    if review is not None:
        yield f"{at}/review", review
    yield from ((f"{at}/body{pointer}", it) for pointer, it in body.reviews())


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
    for it in body.item_validators():
        yield it._replace(scope=f"{scope}{it.scope}", pointer=f"{pointer}/body{it.pointer}")


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
        for it in body.refused(request.model_copy(update=given)):
            yield FieldConflict(self._pointer(it.pointer), f"{body.kind} as a body: {it}")

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
