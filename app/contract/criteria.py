"""What a draft is judged on."""

from typing import Annotated, Any, Final, Literal

from pydantic import Discriminator, Field, Tag

from app.contract import Contract

Name = Annotated[str, Field(min_length=1, max_length=100)]


class Criterion(Contract):
    """One thing a draft is judged on."""

    name: Name
    description: str = Field("", max_length=2_000)
    weight: float = Field(1.0, gt=0, le=1_000)
    floor: float | None = Field(
        None, ge=0, le=1, description="Minimum score; a draft below it does not pass."
    )


QUALITY = Criterion(name="quality", description="Does what the task asks, correctly and clearly.")

AUTO: Final = "auto"
"""Instead of criteria: a critic lists them from the task before any draft is judged."""

FEWEST_LISTED, MOST_LISTED = 3, 8
LONGEST_NAME, LONGEST_QUESTION = 60, 200
"""Characters of a listed criterion's name, and of the question that describes it."""


def _form(given: Any) -> str:
    return AUTO if isinstance(given, str) else "listed"


Criteria = Annotated[
    Annotated[tuple[Criterion, ...], Field(max_length=20), Tag("listed")]
    | Annotated[Literal["auto"], Tag(AUTO)],
    Discriminator(_form),
    Field(
        description="`auto`: `models.critic` first lists 3 to 8 from the task (arXiv 2410.03608)."
    ),
]
