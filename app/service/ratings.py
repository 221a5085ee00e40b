"""Ratings by people: which draft is meant, and what they say about how far to trust its critic."""

from collections.abc import Iterator, Mapping, Sequence

from app.contract.errors import FieldError, InvalidRequest
from app.contract.events import Event, IterationCompleted, Queued, unvoided
from app.contract.models import GENERATOR
from app.contract.ratings import Rated, Rating, RatingRequest
from app.contract.requests import RefinementRequest
from app.contract.statistics import search_of
from app.store import Addition
from app.store.statistics import (
    Agreement,
    Kind,
    agreements,
    critic_of,
    outcome_of,
    rated_once,
)

Judged = Mapping[str, IterationCompleted]


def rating_of(event: Event) -> Rating:
    """Return the rating that an event records."""
    assert isinstance(event.data, Rated)
    return Rating(**event.data.model_dump(), event=event.event, at=event.at)


def rated_of(rating: RatingRequest, journal: Sequence[Event]) -> Rated:
    """Return the rating of the draft that is meant; raise InvalidRequest unless it was judged."""
    judged = _judged(journal, "any")
    _require(judged, "/path", rating.path)
    if rating.better_than is not None:
        _require(judged, "/better_than", rating.better_than)
    return Rated(sha256=judged[rating.path].sha256, **rating.model_dump())


def rating_additions(
    tenant: str, rated: Rated, request: RefinementRequest, journal: Sequence[Event]
) -> tuple[Addition, ...]:
    """Return what a rating adds to the sums of the tenant; nothing if the request does not learn.

    A draft that the same person rated before adds nothing: they changed their mind.
    """
    queued = journal[0].data
    assert isinstance(queued, Queued)
    if not request.learn or not set(request.critics.seats()) <= queued.models.keys():
        return ()
    critic = critic_of(request, queued.models)
    before = [
        event.data
        for event in journal
        if isinstance(event.data, Rated) and event.data.by == rated.by
    ]
    if any(
        rating.path == rated.path and rating.better_than == rated.better_than for rating in before
    ):
        return ()
    found = _agreement(rated, before, _judged(journal, "critique"))
    pairs = agreements(tenant, critic, [] if found is None else [found])
    if GENERATOR not in queued.models:  # nothing was to be written, so that it is of no kind
        return (rated_once(tenant, critic), *pairs)
    predictions = _predictions(tenant, Kind.of(request, queued.models), rated, journal)
    return (rated_once(tenant, critic), *pairs, *predictions)


def _predictions(
    tenant: str, kind: Kind, rated: Rated, journal: Sequence[Event]
) -> Iterator[Addition]:
    """Yield how the prediction ended that the draft is worth its threshold, if there was one."""
    for event in reversed([*unvoided(journal)]):
        judged = event.data
        if not isinstance(judged, IterationCompleted) or judged.best.path != rated.path:
            continue
        if rated.score is not None and judged.estimate is not None:
            threshold = judged.limits.threshold
            chance, is_met = judged.estimate.chance_of(threshold), rated.score >= threshold
            yield outcome_of(tenant, kind, chance, is_met=is_met)
        return


def _judged(journal: Sequence[Event], score_from: str) -> dict[str, IterationCompleted]:
    judged = (
        event.data for event in unvoided(journal) if isinstance(event.data, IterationCompleted)
    )
    return {
        iteration.path: iteration
        for iteration in judged
        if score_from in ("any", iteration.score_from)
    }


def _require(judged: Judged, pointer: str, path: str) -> None:
    if path not in judged:
        detail = f"there is no judged draft at {path[:100]!r}"
        raise InvalidRequest.at(FieldError(pointer=pointer, detail=detail))


def _agreement(rated: Rated, before: Sequence[Rated], judged: Judged) -> Agreement | None:
    """Return how the critic agrees; None unless the rating makes a pair with one rubric.

    A score makes a pair with the latest one that the same person gave in the same search.
    """
    if rated.better_than is not None:
        apparent = _apparent(judged, rated.path, rated.better_than)
        return None if apparent is None else Agreement.of_preference(apparent, agrees=apparent > 0)
    for other in reversed(before):
        apparent = _apparent(judged, rated.path, other.path)
        if apparent is not None and rated.score is not None and other.score is not None:
            return Agreement.of_scores(apparent, rated.score - other.score)
    return None


def _apparent(judged: Judged, path: str, other: str) -> float | None:
    """Return by how much a draft scores more than another one of the same search."""
    if search_of(path) != search_of(other) or not {path, other} <= judged.keys():
        return None
    score, others = judged[path].score, judged[other].score
    return None if score is None or others is None else score - others
