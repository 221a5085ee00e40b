"""How a model was drawn from several: what each had achieved, and what chance made of it."""

from pydantic import Field

from app.contract.model import Contract


class Drawn(Contract):
    """One candidate. The highest `sampled / mean_cost_usd` was picked."""

    model: str
    passed: int = Field(ge=0, description="Refinements that it was drawn for and that passed.")
    ended: int = Field(ge=0, description="Those that succeeded or failed.")
    mean_cost_usd: float = Field(
        gt=0, description="Expected per refinement: what was observed, else by the price list."
    )
    sampled: float = Field(
        ge=0, le=1, description="A share of passes, drawn from Beta(1 + passed, 1 + not passed)."
    )


class Draw(Contract):
    """A draw by Thompson sampling (Thompson 1933, Biometrika 25; arXiv 1707.02038)."""

    candidates: tuple[Drawn, ...]
    picked: str
