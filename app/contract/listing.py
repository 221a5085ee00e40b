"""What a list of refinements is to hold, besides what the indexes tell."""

from dataclasses import dataclass
from datetime import datetime

from app.contract.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Selected:
    """Properties that each refinement of a list has; None and empty sets select all.

    Bounds are inclusive. One without a judged draft has no score, and one whose cost is unknown no
    cost: they are within no bounds. Those of time concern the submission, which an id tells to the
    millisecond; a refinement of a batch was submitted with it.
    """

    statuses: frozenset[str] = frozenset()
    strategies: frozenset[str] = frozenset()
    min_score: float | None = None
    max_score: float | None = None
    min_cost_usd: float | None = None
    max_cost_usd: float | None = None
    submitted_from: datetime | None = None
    submitted_to: datetime | None = None
    parent: str | None = None

    @property
    def is_everything(self) -> bool:
        """Whether each refinement between the bounds of time is selected."""
        bounds = (self.min_score, self.max_score, self.min_cost_usd, self.max_cost_usd)
        is_any = not self.statuses and not self.strategies and self.parent is None
        return is_any and bounds == (None,) * len(bounds)

    def has(self, snapshot: Snapshot) -> bool:
        """Return whether a refinement between the bounds of time is selected."""
        score = snapshot.best.score if snapshot.best else None
        return (
            (not self.statuses or snapshot.status in self.statuses)
            and (not self.strategies or snapshot.strategy in self.strategies)
            and (self.parent is None or snapshot.parent == self.parent)
            and _is_within(self.min_score, score, self.max_score)
            and _is_within(self.min_cost_usd, snapshot.usage.cost_usd, self.max_cost_usd)
        )


def _is_within(least: float | None, value: float | None, most: float | None) -> bool:
    if least is None and most is None:
        return True
    return (
        value is not None and (least is None or value >= least) and (most is None or value <= most)
    )
