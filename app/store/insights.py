"""The sums of what was worth it: a hash per tenant, day and dimension, value -> sums."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta

from app.contract.insights import Dimension, Key, Sums
from app.store import keys
from app.store.codec import decode_sums
from app.store.state import Addition


def insight_additions(tenant: str, day: date, added: Mapping[Key, Sums]) -> tuple[Addition, ...]:
    """Return what a refinement that ends on a day adds to the sums of its tenant."""
    by: defaultdict[Dimension, dict[str, Sums]] = defaultdict(dict)
    for (dimension, value), sums in added.items():
        by[dimension][value] = sums
    return tuple([Addition(keys.insights(tenant, day, of), sums) for of, sums in by.items()])


def insight_keys(
    tenant: str, since: date, until: date, by: Iterable[Dimension]
) -> Iterator[tuple[Dimension, str]]:
    """Yield the keys of the sums of every day, the last one included."""
    for dimension in by:
        for number in range((until - since).days + 1):
            yield dimension, keys.insights(tenant, since + timedelta(days=number), dimension)


def decode_insights(
    stored: Iterable[tuple[Dimension, Mapping[bytes, bytes]]],
) -> dict[Key, Sums]:
    """Return the sums of several days together."""
    total: dict[Key, Sums] = {}
    for dimension, day in stored:
        for value, sums in day.items():
            key = dimension, value.decode()
            total[key] = total.get(key, Sums()) + decode_sums(sums)
    return total
