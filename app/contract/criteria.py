"""What a draft is judged on, and by which critics."""

import re
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from app.contract import Contract, patterns
from app.contract.models import ModelSpec

Name = Annotated[str, Field(min_length=1, max_length=100)]


class ScoredExample(Contract):
    """A text with the score that it deserves on one criterion: it anchors the critic's scale."""

    text: str = Field(min_length=1, max_length=2_000)
    score: float = Field(ge=0, le=1)
    why: str = Field("", max_length=500)


class Criterion(Contract):
    """One thing a draft is judged on."""

    name: Name
    description: str = Field("", max_length=2_000)
    weight: float = Field(1.0, gt=0, le=1_000)
    floor: float | None = Field(
        None, ge=0, le=1, description="Minimum score; a draft below it does not pass."
    )
    examples: tuple[ScoredExample, ...] = Field(
        (), max_length=5, description="Texts with their scores, shown to critics."
    )


QUALITY = Criterion(name="quality", description="Does what the task asks, correctly and clearly.")

AUTO: Final = "auto"
"""Instead of criteria: a critic lists them from the task before any draft is judged."""

FEWEST_LISTED, MOST_LISTED = 3, 8
LONGEST_NAME, LONGEST_QUESTION = 60, 200
"""Characters of a listed criterion's name, and of the question that describes it."""


def _form(given: Any) -> str:
    return AUTO if isinstance(given, str) else "listed"


def _is_auto(given: Any) -> Any:
    if given != AUTO:
        raise ValueError(f"must be `{AUTO}` or a list of criteria")
    return given


Criteria = Annotated[
    Annotated[tuple[Criterion, ...], Field(max_length=20), Tag("listed")]
    | Annotated[Literal["auto"], BeforeValidator(_is_auto), Tag(AUTO)],
    Discriminator(_form),
    Field(
        description="`auto`: `models.critic` first lists 3 to 8 from the task (arXiv 2410.03608)."
    ),
]


CRITIC = "critic"


def _is_no_step(name: str) -> str:
    if re.fullmatch(r"[0-9]+|again", name):
        raise ValueError("the name is part of a path: it must not be a number or `again`")
    return name


CriticName = Annotated[
    str,
    Field(min_length=1, max_length=60, pattern=patterns.PART_NAME.regex),
    AfterValidator(_is_no_step),
]
"""Part of a path, such as `lawyer` in `iterations/1/critique/lawyer`."""


class PanelMember(Contract):
    """One critic of a panel."""

    name: CriticName
    model: ModelSpec | None = Field(None, description="`models.critic` if null.")
    perspective: str = Field("", max_length=500, description="Point of view that it judges from.")
    adversarial: bool = Field(
        False, description="Whether its task is to find faults; its scores stay honest."
    )

    @property
    def seat(self) -> str:
        """Key under which its model is chosen."""
        return f"{CRITIC}/{self.name}"


class Critics(Contract):
    """Several judgements of every draft: the median counts, and the spread is reported.

    A panel of different critics as in PoLL (arXiv 2404.18796), with different roles as in ChatEval
    (arXiv 2308.07201); several samples of one critic as in self-consistency (arXiv 2203.11171).
    """

    samples: int = Field(1, ge=1, le=9, description="How often each critic is asked.")
    panel: tuple[PanelMember, ...] = Field(
        (), max_length=5, description="If empty, `models.critic` is the only critic."
    )

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        names = [member.name for member in self.panel]
        if len(set(names)) < len(names):
            raise ValueError("the names of the critics must be unique")
        return self

    def seats(self) -> tuple[str, ...]:
        """Return the keys under which the models of the critics are chosen."""
        return tuple(member.seat for member in self.panel) or (CRITIC,)
