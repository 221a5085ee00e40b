"""What a draft is judged on."""

from typing import Annotated

from pydantic import Field

from app.contract.model import Contract

Name = Annotated[str, Field(min_length=1, max_length=100)]


class Criterion(Contract):
    """One thing a draft is judged on."""

    name: Name
    description: str = Field("", max_length=2_000)
    weight: float = Field(1.0, gt=0, le=1_000)
    floor: float | None = Field(
        None, ge=0, le=1, description="A draft that scores less here does not pass."
    )


QUALITY = Criterion(name="quality", description="Does what the task asks, correctly and clearly.")
