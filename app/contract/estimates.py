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
    at_most: Consumption = Field(
        description="If everything goes badly: every loop takes all its turns, every reply has to"
        " be asked for again, and is as long as its limit. `max_tokens` and `max_cost_usd` count."
        " Not counted are what reviewers ask for, later changes of the limits, and replies that"
        " were lost or refused on the way and are repeated."
    )
