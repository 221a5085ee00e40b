"""Whether the result is better than the draft it started from: a comparison in both orders."""

from typing import Annotated, Literal

from pydantic import Field

from app.contract.model import Contract

Side = Literal["earlier", "result"]
Verdict = Literal["better", "worse", "tie", "undecided"]


class Order(Contract):
    """What was said when this text stood first, as A, and the other second, as B."""

    first: Side
    better: Side | Literal["tie"]
    reason: str


class Comparison(Contract):
    """The result against an earlier draft. Judges favour a position (arXiv 2306.05685, 2305.17926):
    a verdict counts only if it is the same when the texts change places.
    """

    against: str = Field(description="Path of the earlier draft.")
    verdict: Annotated[
        Verdict,
        Field(
            description="Of the result; `undecided` when the two orders disagree. A result that is"
            " the earlier draft itself is a `tie`, and nobody is asked."
        ),
    ]
    orders: tuple[Order, ...] = Field(description="Both orders; empty when nobody was asked.")
