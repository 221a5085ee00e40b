"""Who judges a draft: how many critics, and how often each is asked."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from app.contract import Contract
from app.contract.models import ModelSpec

CRITIC = "critic"


def _is_no_step(name: str) -> str:
    if re.fullmatch(r"[0-9]+|again", name):
        raise ValueError("a critic's name is part of a path: no number, and not `again`")
    return name


CriticName = Annotated[
    str,
    Field(min_length=1, max_length=60, pattern=r"^[a-z0-9][a-z0-9_-]*$"),
    AfterValidator(_is_no_step),
]
"""Part of a path, such as `lawyer` in `iterations/1/critique/lawyer`."""


class PanelMember(Contract):
    """One critic among several."""

    name: CriticName
    model: ModelSpec | None = Field(None, description="`models.critic` if null.")
    perspective: str = Field("", max_length=500, description="Whose eyes it reads with.")
    adversarial: bool = Field(
        False, description="Whether its part is to look for what is wrong; it scores as honestly."
    )

    @property
    def seat(self) -> str:
        """Under which name its model is chosen."""
        return f"{CRITIC}/{self.name}"


class Critics(Contract):
    """Several opinions of every draft: the median counts, and how far they lie apart is told.

    A panel of different critics after PoLL (arXiv 2404.18796) with parts of their own as in
    ChatEval (arXiv 2308.07201); samples of one critic as in self-consistency (arXiv 2203.11171).
    """

    samples: int = Field(1, ge=1, le=9, description="How often each critic is asked.")
    panel: tuple[PanelMember, ...] = Field(
        (), max_length=5, description="Without one there is a single critic, `models.critic`."
    )

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        names = [member.name for member in self.panel]
        if len(set(names)) < len(names):
            raise ValueError("two critics of the panel have the same name")
        return self

    def seats(self) -> tuple[str, ...]:
        """Return under which names the models of those who judge are chosen."""
        return tuple(member.seat for member in self.panel) or (CRITIC,)
