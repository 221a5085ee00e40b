"""What a list of refinements is to hold, besides what the indexes tell."""

from datetime import datetime

from app.contract.snapshot import Snapshot
from app.contract.values import value


@value(slots=True)
class Selected:
    """Properties that each refinement of a list has; None and empty sets select all.

    Bounds are inclusive. One without a judged draft has no score, and one whose cost is unknown no
    cost: they are within no bounds. A refinement of a batch was submitted with the batch, before
    its `created_at`; any other one at its `created_at`.
    """

    statuses: frozenset[str] = frozenset()
    outcomes: frozenset[str] = frozenset()
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
        """Whether each refinement is selected."""
        return self == EVERYTHING

    def has(self, snapshot: Snapshot, submitted_at: datetime) -> bool:
        """Return whether a refinement is selected."""
        score = snapshot.best.score if snapshot.best else None
        return (
            (not self.statuses or snapshot.status in self.statuses)
            and (not self.outcomes or snapshot.outcome in self.outcomes)
            and (not self.strategies or snapshot.strategy in self.strategies)
            and (self.parent is None or snapshot.parent == self.parent)
            and (self.submitted_from is None or submitted_at >= self.submitted_from)
            and (self.submitted_to is None or submitted_at <= self.submitted_to)
            and _is_within(self.min_score, score, self.max_score)
            and _is_within(self.min_cost_usd, snapshot.usage.cost_usd, self.max_cost_usd)
        )


EVERYTHING = Selected()


def _is_within(least: float | None, value: float | None, most: float | None) -> bool:
    if least is None and most is None:
        return True
    return (
        value is not None and (least is None or value >= least) and (most is None or value <= most)
    )
