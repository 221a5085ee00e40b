"""What a request would consume: calls, tokens and dollars."""

from pydantic import Field

from app.contract import Contract
from app.contract.models import ModelName


class Consumption(Contract):
    """Model calls, their tokens and their cost."""

    calls: int = Field(ge=0)
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0, description="Thinking included.")
    tokens: int = Field(ge=0, description="Input and output together.")
    cost_usd: float | None = Field(
        ge=0, description="At list prices, without discounts of a cache; null if one is unknown."
    )


class Cap(Contract):
    """What a refinement cannot exceed; null is without a limit.

    Not counted are what reviewers ask for, later changes of the limits, and replies that were lost
    or refused on the way and are repeated.
    """

    calls: int = Field(ge=0, description="If every reply has to be asked for as often as may be.")
    max_tokens: int | None = Field(description="`stop.max_tokens` of the request.")
    max_cost_usd: float | None = Field(description="`stop.max_cost_usd` of the request.")


class RefinementEstimate(Contract):
    """What a request would consume; nothing was run."""

    strategy: str
    models: dict[str, ModelName] = Field(
        description="The model of every role and critic that it can call; the first candidate for a"
        " generator that is drawn."
    )
    expected: Consumption = Field(
        description="As such requests usually go: loops end halfway, replies can be read, and texts"
        " keep about their length."
    )
    p95: Consumption = Field(
        description="What 95 of 100 such refinements stay within: loops take all their turns, one"
        " reply in ten is asked for again, and texts, replies and thinking are half as long again"
        " as expected. `max_tokens` and `max_cost_usd` count."
    )
    cap: Cap
