"""Strategies that consist of inner searches: passes, stages and parts."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from app.contract import Contract
from app.contract.calls import Rates
from app.contract.criteria import Criterion
from app.contract.drafts import Instructions, PartName
from app.contract.errors import FieldConflict
from app.contract.limits import Threshold
from app.contract.models import ROLES, Role
from app.contract.sections import split
from app.contract.strategies import LanguageNeed, Strategy
from app.contract.strategies.loops import DEFAULT, BestOfNStrategy, IterativeStrategy
from app.contract.validators import AnyValidator, ItemValidators

if TYPE_CHECKING:
    from app.contract.requests import RefinementRequest

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

    def judged_on(self) -> tuple[Criterion, ...]:
        """Return its criteria, or the default criterion of its focus."""
        return self.criteria or (FOCUSES[self.focus],)


class MultiPassStrategy(Strategy):
    """Improve the text in passes that are scheduled beforehand, each with its own focus.

    A later pass is also judged, with a floor, on the criteria that earlier passes met, and must not
    undo them. The result is judged on the request's own criteria. (Multi-pass editing: Du et al.,
    "Read, Revise, Repeat", arXiv 2204.03685.)
    """

    kind: Literal["multi_pass"]
    passes: tuple[Pass, ...] = Field(
        tuple(Pass(focus=focus) for focus in FOCUSES), min_length=1, max_length=10
    )

    needs_language: ClassVar[LanguageNeed | None] = None
    judges_criteria: ClassVar[bool] = True

    def roles(self) -> tuple[Role, ...]:
        return ROLES

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        _unique("passes", [it.focus for it in self.passes])
        _unique("criteria of the passes", [c.name for it in self.passes for c in it.judged_on()])
        return self

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        has_draft = draft is not None
        first, *later = (it.max_iterations for it in self.passes)
        searches = rates.search(first, has_draft=has_draft)
        searches += sum(rates.search(most, has_draft=True) for most in later)
        return _as_a_whole(rates, draft) + searches

    def rubrics(self) -> tuple[tuple[Criterion, ...], ...]:
        return tuple(it.judged_on() for it in self.passes)

    def item_validators(self) -> tuple[ItemValidators, ...]:
        return _own("passes", [(it.focus, it.validators) for it in self.passes])

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

    @model_validator(mode="after")
    def _sections_are_written(self) -> Self:
        if self.sections and self.mode == "revise":
            raise ValueError("`sections` requires the mode `write`")
        return self

    def calls(self, rates: Rates) -> int:
        """Return the maximum number of model calls of the stage."""
        sections = USUAL_SECTIONS if rates.is_usual else MOST_WRITTEN
        has_draft = self.sections or self.mode == "revise"
        written = self.sections * sections * rates.ask
        return written + rates.search(self.max_iterations, has_draft=has_draft)


STAGES = (
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
    stages: tuple[Stage, ...] = Field(STAGES, min_length=1, max_length=10)

    needs_language: ClassVar[LanguageNeed | None] = None
    judges_criteria: ClassVar[bool] = True

    def roles(self) -> tuple[Role, ...]:
        return ROLES

    @model_validator(mode="after")
    def _stages_follow(self) -> Self:
        _unique("stages", [it.name for it in self.stages])
        for stage in self.stages:
            _unique(f"criteria of {stage.name}", [it.name for it in stage.criteria])
        if self.stages[0].sections:
            raise ValueError("`sections` is not supported by the first stage: none comes before it")
        return self

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        return _as_a_whole(rates, draft) + sum(it.calls(rates) for it in self.stages)

    def conflicts(self, request: "RefinementRequest") -> Iterator[FieldConflict]:
        if request.draft is None and self.stages[0].mode == "revise":
            yield FieldConflict("/draft", "`draft` is required: the first stage revises it")

    def rubrics(self) -> tuple[tuple[Criterion, ...], ...]:
        return tuple(it.criteria for it in self.stages if it.criteria)

    def item_validators(self) -> tuple[ItemValidators, ...]:
        return _own("stages", [(it.name, it.validators) for it in self.stages])

    def lacks(self, path: str, draft: str | None) -> tuple[str, ...]:
        names = [it.name for it in self.stages]
        kind, name = (*path.split("/"), "")[:2]
        later = names[names.index(name) + 1 :] if kind == "stages" and name in names else ()
        return tuple(f"stages/{it}" for it in later)

    def replies_in_prompt(self, draft: str | None) -> int:
        return MOST_WRITTEN if any(it.sections for it in self.stages) else 1

    def writes_anew(self) -> bool:
        return any(it.mode == "write" for it in self.stages)

    def can_differ(self, max_iterations: int, *, has_draft: bool) -> bool:
        return has_draft


Body = Annotated[
    IterativeStrategy | BestOfNStrategy | MultiPassStrategy | StepwiseStrategy,
    Field(discriminator="kind"),
]
"""The strategies that can refine a part: their critics score drafts, and they need no tools."""


class Part(Contract):
    """One part of a larger text, such as a chapter."""

    name: PartName
    instructions: Annotated[Instructions, Field(min_length=1)]
    criteria: tuple[Criterion, ...] = Field(
        (), max_length=20, description="Criteria of the part; the request's if empty."
    )
    validators: OwnValidators = ()
    threshold: OwnThreshold = None


class NestedStrategy(Strategy):
    """Refine n parts in parallel, each with another strategy to its own threshold, and join them.

    Without `parts` they are the sections of the given draft. The joined text is judged as a whole.
    The limits on cost, tokens and time apply to all parts together. (Recursive reprompting and
    revision, Re3, arXiv 2210.06774.)
    """

    kind: Literal["nested"]
    parts: tuple[Part, ...] = Field((), max_length=30)
    body: Body = DEFAULT
    max_iterations: OwnIterations = 3
    separator: str = Field("\n\n", max_length=100, description="Text between two parts.")

    needs_language: ClassVar[LanguageNeed | None] = None
    rewrites: ClassVar[bool] = False
    judges_criteria: ClassVar[bool] = True

    def roles(self) -> tuple[Role, ...]:
        return ROLES

    @model_validator(mode="after")
    def _parts_can_be_played(self) -> Self:
        _unique("parts", [part.name for part in self.parts])
        if self.body.drawn_at_least() > self.max_iterations:
            raise ValueError(
                f"max_iterations must be at least {self.body.drawn_at_least()}: {self.body.kind}"
                " writes as many drafts of a part"
            )
        return self

    def calls(self, rates: Rates, max_iterations: int, draft: str | None) -> int:
        part = self.body.calls(rates, self.max_iterations, draft)
        return _as_a_whole(rates, draft) + self._number_of_parts(draft) * part

    def conflicts(self, request: "RefinementRequest") -> Iterator[FieldConflict]:
        yield from self.body.conflicts(request)
        if bool(self.parts) == bool(request.draft):
            yield FieldConflict(
                "/strategy/parts",
                "nested requires either a `draft`, whose sections it refines, or `parts`",
            )

    def rubrics(self) -> tuple[tuple[Criterion, ...], ...]:
        return (*self.body.rubrics(), *(it.criteria for it in self.parts if it.criteria))

    def item_validators(self) -> tuple[ItemValidators, ...]:
        own = _own("parts", [(it.name, it.validators) for it in self.parts])
        body = self.body.item_validators()
        return (*own, *(it._replace(pointer=f"/body{it.pointer}") for it in body))

    def replies_in_prompt(self, draft: str | None) -> int:
        return self._number_of_parts(draft) * self.body.replies_in_prompt(draft)

    def _number_of_parts(self, draft: str | None) -> int:
        return len(self.parts) if draft is None else len(split(draft).texts)

    def lacks(self, path: str, draft: str | None) -> tuple[str, ...]:
        kind, name = (*path.split("/"), "")[:2]
        if kind != "parts":
            return ()
        if draft is not None:  # the whole is judged first, and no section is taken for it
            return ("parts",)
        return tuple(f"parts/{it.name}" for it in self.parts if it.name != name)

    def writes_anew(self) -> bool:
        return self.body.writes_anew()

    def can_differ(self, max_iterations: int, *, has_draft: bool) -> bool:
        return has_draft


def _as_a_whole(rates: Rates, draft: str | None) -> int:
    """Return the calls that judge the client's draft and the result of the inner searches."""
    return rates.judge * (1 if draft is None else 2)


def _own(items: str, named: Iterable[tuple[str, OwnValidators]]) -> tuple[ItemValidators, ...]:
    return tuple(
        ItemValidators(f"{items}/{name}", f"/{items}/{index}/validators", validators)
        for index, (name, validators) in enumerate(named)
        if validators
    )


def _unique(what: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise ValueError(f"two {what} have the same name")
