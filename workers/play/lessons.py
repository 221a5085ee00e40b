"""What a refinement that has succeeded adds to the sums of its tenant."""

from collections.abc import Iterator, Mapping

from app.contract.events import IterationCompleted
from app.store import Addition, Submitted
from app.store.statistics import Agreement, Hypotheses, Kind, agreements, lessons
from workers.engine.judging import errors_in
from workers.engine.quality_filter import HYPOTHESES
from workers.engine.search import Outcome

OF_THE_BANK = Hypotheses(
    noise=tuple(it.noise for it in HYPOTHESES),
    gain=tuple(it.gain for it in HYPOTHESES),
    prior=tuple(it.prior for it in HYPOTHESES),
)

VALIDATORS_WEIGHT = 0.25
"""What a pair compared by validators weighs, against 1 by a person: they see a part of it."""


def kind_of(submitted: Submitted) -> Kind | None:
    """Return the kind of a refinement; None if it neither learns nor is learnt from."""
    models = {seat: it.model for seat, it in submitted.models.items()}
    return Kind.of(submitted.request, models) if submitted.request.learn else None


def additions_of(
    tenant: str, kind: Kind | None, outcome: Outcome, judged: Mapping[str, IterationCompleted]
) -> tuple[Addition, ...]:
    """Return what an outcome adds; `judged` has every judged draft by its path."""
    if kind is None:
        return ()
    lesson = outcome.lesson
    learnt = () if lesson is None else lessons(tenant, kind, lesson, OF_THE_BANK)
    return (*learnt, *agreements(tenant, kind.critic, agreements_in(judged)))


def agreements_in(judged: Mapping[str, IterationCompleted]) -> Iterator[Agreement]:
    """Yield how the critic agrees with the validators about each revision and its parent.

    The better of the two has fewer and lighter findings. Pairs without such a difference, and those
    that critics did not score, say nothing.
    """
    for draft in judged.values():
        parent = judged.get(draft.parent or "")
        if parent is None or {draft.score_from, parent.score_from} != {"critique"}:
            continue
        if draft.score is None or parent.score is None:
            continue
        if not (draft.findings or parent.findings):
            continue
        fewer = sum(errors_in(parent.findings)) - sum(errors_in(draft.findings))
        if fewer:
            apparent = draft.score - parent.score
            agrees = apparent * fewer > 0
            yield Agreement.of_preference(apparent, agrees=agrees, weight=VALIDATORS_WEIGHT)
