"""Strategies made of searches of their own: passes, stages and parts."""

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from app.contract import Contract
from app.contract.criteria import Criterion
from app.contract.limits import Threshold

Focus = Literal["structure", "content", "style", "facts", "format"]
PartName = Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[a-z0-9][a-z0-9_-]*$")]
"""Part of a path, such as `outline` in `stages/outline/iterations/1`."""

Instructions = Annotated[str, Field(max_length=4_000)]
OwnIterations = Annotated[
    int, Field(ge=1, le=50, description="Drafts written and judged there at most.")
]
OwnThreshold = Annotated[
    Threshold | None, Field(description="Score that is good enough there; the request's if null.")
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
"""What a pass is judged on that names no criteria."""


class Pass(Contract):
    """One pass over the whole text with its mind on one thing."""

    focus: Focus
    instructions: Instructions = ""
    criteria: tuple[Criterion, ...] = Field((), max_length=10)
    threshold: OwnThreshold = None
    max_iterations: OwnIterations = 1

    def judged_on(self) -> tuple[Criterion, ...]:
        """Return its criteria, or the one that its focus stands for."""
        return self.criteria or (FOCUSES[self.focus],)


class MultiPassStrategy(Contract):
    """Improve the text in passes that are scheduled beforehand, each with a focus of its own.

    A later pass is also judged on what the earlier ones met, with a floor, and may not undo it. The
    result is judged on the request's own criteria. (Multi-pass editing: Du et al., "Read, Revise,
    Repeat", arXiv 2204.03685.)
    """

    kind: Literal["multi_pass"]
    passes: tuple[Pass, ...] = Field(
        tuple(Pass(focus=focus) for focus in FOCUSES), min_length=1, max_length=10
    )

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        _unique("passes", [it.focus for it in self.passes])
        _unique("criteria of the passes", [c.name for it in self.passes for c in it.judged_on()])
        return self

    def rubrics(self) -> tuple[tuple[Criterion, ...], ...]:
        """Return what is judged on besides the request's criteria."""
        return tuple(it.judged_on() for it in self.passes)


class Stage(Contract):
    """One stage: it writes a new text from what the stage before came to, or revises that text."""

    name: PartName
    mode: Literal["write", "revise"] = "write"
    instructions: Instructions = ""
    criteria: tuple[Criterion, ...] = Field(
        (), max_length=20, description="What verifies the stage; the request's if empty."
    )
    threshold: OwnThreshold = None
    max_iterations: OwnIterations = 2
    sections: bool = Field(
        False,
        description="Write one text per section of what the stage before came to, all at once, and"
        " put them together. Sections are headings, else top-level list items, else paragraphs.",
    )

    @model_validator(mode="after")
    def _sections_are_written(self) -> Self:
        if self.sections and self.mode == "revise":
            raise ValueError("sections are written: give the stage the mode `write`")
        return self


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


class StepwiseStrategy(Contract):
    """Work in ordered stages, each verified on its own criteria before the next begins.

    A stage that cannot pass, or fails, is given up: the result is what the last verified stage came
    to, judged on the request's own criteria. (Decomposed prompting, arXiv 2210.02406; outline
    first, sections at once: Skeleton-of-Thought, arXiv 2307.15337.)
    """

    kind: Literal["stepwise"]
    stages: tuple[Stage, ...] = Field(STAGES, min_length=1, max_length=10)

    @model_validator(mode="after")
    def _stages_follow(self) -> Self:
        _unique("stages", [it.name for it in self.stages])
        for stage in self.stages:
            _unique(f"criteria of {stage.name}", [it.name for it in stage.criteria])
        if self.stages[0].sections:
            raise ValueError("the first stage has nothing before it to take sections from")
        return self

    def rubrics(self) -> tuple[tuple[Criterion, ...], ...]:
        """Return what is judged on besides the request's criteria."""
        return tuple(it.criteria for it in self.stages if it.criteria)


def _unique(what: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise ValueError(f"two {what} have the same name")


PARTED = (MultiPassStrategy, StepwiseStrategy)
"""Those whose inner searches are judged on criteria of their own."""
