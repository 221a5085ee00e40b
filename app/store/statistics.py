"""The sums over ended refinements: calibration, achievements of models, insights and usage.

Calibration: two hashes grow with each refinement (`Addition`), of its own kind, and of all kinds
with the same models. A third one has how far each critic of a tenant can be trusted.
Achievements of models that were drawn: a hash per tenant, kind, day, seat and model. `tally` in
sums.lua adds to them, and takes back what a retry makes void.
Insights: a hash per tenant, day and dimension.
Usage: a hash per tenant and day, listed in a sorted set.
"""

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import islice
from math import exp, sqrt
from typing import Any, Self

from pydantic_core import from_json, to_json

from app.contract.calibration import CalibratedKind, FirstDrafts, Learnt
from app.contract.criteria import AUTO
from app.contract.insights import KEPT_DAYS, Dimension, Key, Sums
from app.contract.requests import RefinementRequest
from app.contract.usage import ModelUse, UsageCell
from app.contract.values import value
from app.store import keys
from app.store.codec import decode_sums, readable_sums
from app.store.committer import Committer, replies_in_order
from app.store.connection import refusing
from app.store.state import Addition, NewRefinement

DECAY = 0.99
"""What is left of a sum at each addition: about the latest 100 count."""

FEWEST_KNOWN = 10
"""Refinements of a kind from which on its own sums are taken."""

DIGITS = 16
"""Hexadecimal digits of the SHA-256 that names a kind, or a set of criteria."""

PRIOR_TRUST = 0.5
PRIOR_WEIGHT = 1.0
"""The prior weighs as much as 25 pairs of drafts whose scores differ by 0.2."""


def _digest(named: object) -> str:
    return hashlib.sha256(to_json(named)).hexdigest()[:DIGITS]


def critic_of(request: RefinementRequest, models: Mapping[str, str]) -> str:
    """Return the name under which a critic's scores are compared, by the names of the models.

    It has all models of a panel, and how often each critic is asked if that is more than once.
    """
    critic = " + ".join(sorted(models[seat] for seat in request.critics.seats()))
    samples = request.critics.samples
    return f"{critic} x {samples}" if samples > 1 else critic


@value(slots=True)
class Kind:
    """What refinements have in common that learn from each other.

    `criteria` is a hash of their names, descriptions and weights.
    """

    generator: str
    critic: str
    criteria: str
    strategy: str

    @classmethod
    def of(cls, request: RefinementRequest, models: Mapping[str, str]) -> Self:
        """Return the kind of a request, whose models are named by seat."""
        rubric = [[it.name, it.description, it.weight] for it in request.judged_on()]
        return cls(
            generator=models["generator"],
            critic=critic_of(request, models),
            criteria=_digest(AUTO if request.criteria == AUTO else rubric),
            strategy=request.strategy.kind,
        )

    @property
    def own(self) -> str:
        """The name of the sums of this kind alone."""
        return _names_of(self)[0]

    @property
    def with_its_models(self) -> str:
        """The name of the sums of all kinds with its models."""
        return _names_of(self)[1]


@lru_cache(maxsize=256)
def _names_of(kind: Kind) -> tuple[str, str]:
    return _digest(list(_by_name(kind).values())), _digest([kind.generator, kind.critic])


@value(slots=True)
class Hypotheses:
    """What the evidence of a version is about, one place for each hypothesis.

    It is stored with the evidence, so that a server of another release can say what was learnt.
    """

    noise: tuple[float, ...]
    gain: tuple[float, ...]
    prior: tuple[float, ...]


@value(slots=True)
class Agreement:
    """Sums over pairs of drafts that a critic scored and somebody else compared.

    `product` adds up what the critic's scores differ by times what the others' do, `square` the
    former squared.
    """

    pairs: float = 0
    product: float = 0
    square: float = 0

    @classmethod
    def of_scores(cls, apparent: float, true: float) -> Self:
        """Return one pair: what the critic's scores differ by, and what the others' do."""
        return cls(1, apparent * true, apparent * apparent)

    @classmethod
    def of_preference(cls, apparent: float, *, agrees: bool, weight: float = 1.0) -> Self:
        """Return one pair of which only the better draft is known.

        It counts as if the difference were as large as the critic's, so that a critic whose
        direction is right in three of four cases is trusted by half.
        """
        square = weight * apparent * apparent
        return cls(1, square if agrees else -square, square)

    @property
    def trust(self) -> float:
        """Share of an apparent change to believe, from 0 to 1.

        The slope of the least squares line through the origin, shrunk to `PRIOR_TRUST`. The noise
        of the critic makes it smaller.
        """
        slope = (self.product + PRIOR_TRUST * PRIOR_WEIGHT) / (self.square + PRIOR_WEIGHT)
        return min(1.0, max(0.0, slope))


def lessons(
    tenant: str, kind: Kind, lesson: Learnt, hypotheses: Hypotheses
) -> tuple[Addition, ...]:
    """Return what a refinement adds to the sums of its kind, and to those of its models."""
    sums = {
        "refinements": (lesson.refinements,),
        "evidence": lesson.evidence,
        "first_drafts": lesson.first_drafts,
        "predicted": lesson.predicted,
    }
    return tuple(
        Addition(
            keys.learnt(tenant, name),
            sums,
            decay=DECAY,
            version=lesson.bank,
            about=about,
            listed_in=keys.all_learnt(tenant),
        )
        for name, about in _described(kind, hypotheses)
    )


@lru_cache(maxsize=256)
def _described(kind: Kind, hypotheses: Hypotheses) -> tuple[tuple[str, str], ...]:
    """Return the names of the two sums, each with what they are of (JSON)."""
    of_models = {"generator": kind.generator, "critic": kind.critic}
    named = {kind.own: _by_name(kind), kind.with_its_models: of_models}
    return tuple((name, to_json(of | _by_name(hypotheses)).decode()) for name, of in named.items())


def _by_name(it: Kind | Hypotheses) -> dict[str, Any]:
    return {member.name: getattr(it, member.name) for member in fields(it)}


def agreements(tenant: str, critic: str, pairs: Iterable[Agreement]) -> tuple[Addition, ...]:
    """Return what pairs of drafts add to the trust in a critic; nothing if there are none."""
    found = [it for it in pairs if it.square > 0]
    if not found:
        return ()
    sums = (sum(it.pairs for it in found), sum(it.product for it in found))
    pairs_sums = (*sums, sum(it.square for it in found))
    return (Addition(keys.trust(tenant), {f"pairs {critic}": pairs_sums}, decay=DECAY),)


def outcome_of(tenant: str, kind: Kind, chance: float, *, is_met: bool) -> Addition:
    """Return what a predicted chance and a person's word on it add to the sums of its kind.

    They go with the evidence: without a version they begin no sums that other releases read.
    """
    sums = {"rated": (1.0, float(is_met), chance, chance * (1 - chance))}
    return Addition(keys.learnt(tenant, kind.own), sums, decay=DECAY)


def rated_once(tenant: str, critic: str) -> Addition:
    """Return what a person's rating adds to the number of those of a critic's drafts."""
    return Addition(keys.trust(tenant), {f"ratings {critic}": (1,)})


async def read_learnt(committer: Committer, tenant: str, kind: Kind) -> bytes:
    """Return what was learnt so far (JSON), `b""` if nothing. Raises redis errors.

    It has the sums of a kind once that knows enough, else those of all kinds with its models, and
    how its critic agrees with others.
    """
    own, others, agreed = await replies_in_order(
        committer.execute("HGETALL", keys.learnt(tenant, kind.own)),
        committer.execute("HGETALL", keys.learnt(tenant, kind.with_its_models)),
        committer.execute("HGET", keys.trust(tenant), f"pairs {kind.critic}"),
    )
    known = readable_sums(own.get(b"refinements", b""))
    is_own = bool(known) and known[0] >= FEWEST_KNOWN
    sums: dict[str, Any] = {
        name.decode(): from_json(stored) if name == b"version" else readable_sums(stored)
        for name, stored in (own if is_own else others).items()
        if name != b"about"
    }
    if [] in sums.values():
        return b""  # the others would teach something else
    if pairs := readable_sums(agreed or b""):
        sums["pairs"] = pairs
    return to_json({**sums, "is_own": is_own}) if sums else b""


def decode_learnt(stored: bytes) -> Learnt | None:
    """Return what the first claim kept for a refinement; None if nothing was known."""
    if not stored:
        return None
    found = from_json(stored)
    trust = Agreement(*found.get("pairs", ())).trust
    if "version" not in found:  # only the critic is known
        return Learnt(bank=1, is_own=False, trust=trust)
    return Learnt(
        bank=found["version"],
        refinements=found["refinements"][0],
        evidence=found.get("evidence", ()),
        first_drafts=found["first_drafts"],
        predicted=found.get("predicted", (0, 0)),
        rated=found.get("rated", (0, 0, 0, 0)),
        is_own=found["is_own"],
        trust=trust,
    )


def calibrations(
    kinds: Iterable[Mapping[bytes, bytes]], critics: Mapping[bytes, bytes]
) -> tuple[CalibratedKind, ...]:
    """Return what is stored of kinds, and of critics of whom nothing else is known."""
    known = {name.decode(): decode_sums(sums) for name, sums in critics.items()}
    rows = [_calibration(_members(it), known) for it in kinds if it]
    named = {name.partition(" ")[2] for name in known} - {it.critic for it in rows}
    alone = [_calibration({"about": {"critic": critic}}, known) for critic in sorted(named)]
    return (*rows, *alone)


def _members(stored: Mapping[bytes, bytes]) -> dict[str, Any]:
    return {name.decode(): decode_sums(value) for name, value in stored.items()}


def _calibration(found: Mapping[str, Any], critics: Mapping[str, Any]) -> CalibratedKind:
    about = found["about"]
    critic = about["critic"]
    agreement = Agreement(*critics.get(f"pairs {critic}", ()))
    weights = _weights(found)
    return CalibratedKind(
        generator=about.get("generator"),
        critic=critic,
        strategy=about.get("strategy"),
        criteria=about.get("criteria"),
        refinements=found.get("refinements", [0])[0],
        noise=_mean(weights, about.get("noise", ())),
        gain=_mean(weights, about.get("gain", ())),
        first_drafts=_first_drafts(*found.get("first_drafts", (0, 0, 0))),
        trust=agreement.trust,
        pairs=agreement.pairs,
        ratings=int(critics.get(f"ratings {critic}", [0])[0]),
    )


def _weights(found: Mapping[str, Any]) -> list[float]:
    """Return the weight of each hypothesis after the evidence, up to a factor."""
    evidence, prior = found.get("evidence", ()), found["about"].get("prior", ())
    most = max(evidence, default=0.0)
    return [it * exp(said - most) for it, said in zip(prior, evidence, strict=False)]


def _mean(weights: Sequence[float], values: Sequence[float]) -> float | None:
    total = sum(weights)
    if not total:
        return None
    return sum(weight * it for weight, it in zip(weights, values, strict=True)) / total


def _first_drafts(count: float, total: float, squares: float) -> FirstDrafts | None:
    if count <= 0:
        return None
    mean = total / count
    variance = max(0.0, squares / count - mean * mean)
    sd = sqrt(variance * count / (count - 1)) if count > 1 else None
    return FirstDrafts(mean=min(1.0, max(0.0, mean)), sd=sd)


REMEMBERED_DAYS = 30
"""For how many days it counts what a model has achieved, today included."""


@value(slots=True)
class Achieved:
    """What a model has achieved in the refinements that it was drawn for and that have ended.

    `gain` and `squares` are sums of the scores reached, minus that of the client's draft, and of
    their squares. `cost_usd` is the total cost of the `priced` ones: those that judged a draft and
    whose cost is known. One that failed at once cost little, which is no measure of the cost of an
    answer.
    """

    ended: int = 0
    passed: int = 0
    gain: float = 0.0
    squares: float = 0.0
    priced: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: "Achieved") -> "Achieved":
        """Add both."""
        return Achieved(*(getattr(self, it) + getattr(other, it) for it in ACHIEVED_FIELDS))

    @property
    def mean_cost_usd(self) -> float | None:
        """The mean cost of one refinement; None if there is none."""
        return self.cost_usd / self.priced if self.priced else None

    @property
    def mean_gain(self) -> float | None:
        """The mean gain of one refinement; None if there is none."""
        return self.gain / self.ended if self.ended else None


ACHIEVED_FIELDS = tuple(it.name for it in fields(Achieved))

Candidates = Mapping[str, Sequence[str]]
"""Models by the seat for which one of them is drawn."""


def kind_of_task(request: RefinementRequest) -> str:
    """Return the name of what refinements have in common that models are compared in.

    That is their strategy, their criteria and their preset.
    """
    rubric = [[it.name, it.description, it.weight] for it in request.judged_on()]
    criteria = AUTO if request.criteria == AUTO else rubric
    told = to_json([request.strategy.kind, criteria, request.preset])
    return hashlib.sha256(told).hexdigest()[:DIGITS]


def drawn_in(new: NewRefinement) -> bytes | None:
    """Return what the record says of the models that were drawn; None if nothing is learnt."""
    queued = new.queued
    if not new.request.learn or (queued.draw is None and not queued.draws):
        return None
    draws = queued.draws if queued.draw is None else {"generator": queued.draw, **queued.draws}
    kind = next(iter(draws.values())).kind
    return to_json({"kind": kind, "models": {seat: it.picked for seat, it in draws.items()}})


async def achievements(
    committer: Committer, tenant: str, kind: str, candidates: Candidates
) -> dict[str, dict[str, Achieved]]:
    """Return by seat and model what has been achieved in the last 30 days."""
    today = datetime.now(UTC).date() + timedelta(days=1)  # the clock of Redis may be ahead
    pairs = [(seat, model) for seat, models in candidates.items() for model in models]
    names = [f"{field} {seat} {model}" for seat, model in pairs for field in ACHIEVED_FIELDS]
    days = [today - timedelta(days=back) for back in range(REMEMBERED_DAYS + 1)]
    stored = await asyncio.gather(
        *(committer.execute("HMGET", keys.achieved(tenant, kind, day), *names) for day in days)
    )
    total = dict.fromkeys(pairs, Achieved())
    for values in map(iter, stored):
        for pair in pairs:
            total[pair] += _achieved(values)
    return {
        seat: {model: total[seat, model] for model in models} for seat, models in candidates.items()
    }


def _achieved(values: Iterator[bytes | None]) -> Achieved:
    ended, passed, gain, squares, priced, cost_usd = (
        float(it or 0) for it in islice(values, len(ACHIEVED_FIELDS))
    )
    return Achieved(int(ended), int(passed), gain, squares, int(priced), cost_usd)


async def agreements_of(
    committer: Committer, tenant: str, critics: Sequence[str]
) -> dict[str, Agreement]:
    """Return how critics agreed with people and validators, all kinds together."""
    if not critics:
        return {}
    names = [f"pairs {critic}" for critic in critics]
    stored = await committer.execute("HMGET", keys.trust(tenant), *names)
    sums = (() if it is None else decode_sums(it) for it in stored)
    return {critic: Agreement(*it) for critic, it in zip(critics, sums, strict=True)}


def insight_additions(tenant: str, day: date, added: Mapping[Key, Sums]) -> tuple[Addition, ...]:
    """Return what a refinement that ends on a day adds to the sums of its tenant."""
    by: defaultdict[Dimension, dict[str, Sums]] = defaultdict(dict)
    for (dimension, group), sums in added.items():
        by[dimension][group] = sums
    return tuple([Addition(keys.insight_sums(tenant, day, of), sums) for of, sums in by.items()])


def insight_keys(
    tenant: str, since: date, until: date, by: Iterable[Dimension]
) -> Iterator[tuple[Dimension, str]]:
    """Yield the keys of the sums of every day, the last one included."""
    for dimension in by:
        for number in range((until - since).days + 1):
            yield dimension, keys.insight_sums(tenant, since + timedelta(days=number), dimension)


def decode_insights(
    stored: Iterable[tuple[Dimension, Mapping[bytes, bytes]]],
) -> dict[Key, Sums]:
    """Return the sums of several days together."""
    total: dict[Key, Sums] = {}
    for dimension, day in stored:
        for group, sums in day.items():
            key = dimension, group.decode()
            total[key] = total.get(key, Sums()) + decode_sums(sums)
    return total


EPOCH = date(1970, 1, 1)
SCANNED = 1_000

TenantDay = tuple[str, date]
Cells = list[tuple[UsageCell, int, ModelUse]]
"""Each with the number of endings."""


async def usage_days(
    committer: Committer, tenant: str | None, first: date, last: date
) -> list[TenantDay]:
    """Return the days from `first` to `last` for which a tenant, or any, has usage."""
    bounds = ((it - EPOCH).days for it in (first, last))
    listed = await committer.execute("ZRANGEBYSCORE", keys.USAGE, *bounds)
    named = (it.decode().rsplit(":", 1) for it in listed)
    return [
        (name, EPOCH + timedelta(days=int(day))) for name, day in named if tenant in (None, name)
    ]


async def usage_of(committer: Committer, days: Sequence[TenantDay]) -> Cells:
    """Return the usage of some tenants' days."""
    names = (keys.usage(tenant, day) for tenant, day in days)
    found = await asyncio.gather(*(committer.execute("HGETALL", it) for it in names))
    return await asyncio.to_thread(_cells, days, found)


def _cells(days: Sequence[TenantDay], found: Sequence[Mapping[bytes, bytes]]) -> Cells:
    cells: Cells = []
    for (tenant, day), stored in zip(days, found, strict=True):
        for name, sums in stored.items():
            outcome, strategy, key, model = name.decode().split(" ", 3)
            endings, *use = map(int, sums.split())
            cell = UsageCell(day, tenant, "" if key == "-" else key, model, strategy, outcome)
            cells.append((cell, endings, ModelUse(*use)))
    return cells


async def unlist_usage(committer: Committer, tenant: str) -> None:
    """Remove the days of a tenant from the list; the hashes themselves are deleted elsewhere."""
    cursor: int | None = None
    while cursor != 0:
        found = await committer.execute(
            "ZSCAN", keys.USAGE, cursor or 0, "MATCH", f"{tenant}:*", "COUNT", SCANNED
        )
        cursor = int(found[0])
        if listed := [name for name, _ in found[1]]:
            await committer.execute("ZREM", keys.USAGE, *listed)


class Statistics:
    """Reads the sums over ended refinements. Every method raises Unavailable."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer

    @refusing
    async def insights(
        self, tenant: str, since: date | None, by: Collection[Dimension]
    ) -> tuple[date, dict[Key, Sums]]:
        """Return the sums of gains since a day, and that day: the first one that is kept, if later.

        Without a day, all that are kept count.
        """
        seconds, _ = await self._committer.execute("TIME")
        today = datetime.fromtimestamp(seconds, UTC).date()
        first = max(since or date.min, today - timedelta(days=KEPT_DAYS - 1))
        named = [*insight_keys(tenant, first, today, by)]
        stored = await asyncio.gather(*(self._committer.execute("HGETALL", it) for _, it in named))
        days = zip((of for of, _ in named), stored, strict=True)
        return first, await asyncio.to_thread(decode_insights, days)

    @refusing
    async def usage_days(
        self, tenant: str | None, first: date | None, last: date | None, default_days: int
    ) -> tuple[date, date, list[TenantDay]]:
        """Return the first and the last day, and those between for which there is usage.

        It is that of a tenant, or of all. The last day is today unless given, in UTC; without a
        first one there are `default_days`.
        """
        seconds, _ = await self._committer.execute("TIME")
        last = last or datetime.fromtimestamp(seconds, UTC).date()
        if first is None:
            first = date.fromordinal(max(1, last.toordinal() - default_days + 1))
        return first, last, await usage_days(self._committer, tenant, first, last)

    @refusing
    async def usage_of(self, days: Sequence[TenantDay]) -> Cells:
        """Return what refinements have consumed that ended on some tenants' days."""
        return await usage_of(self._committer, days)

    @refusing
    async def achieved(
        self, tenant: str, kind: str, candidates: Candidates
    ) -> Mapping[str, Mapping[str, Achieved]]:
        """Return by seat what models have achieved in the tasks of a kind they were drawn for."""
        return await achievements(self._committer, tenant, kind, candidates)

    @refusing
    async def agreements(self, tenant: str, critics: Sequence[str]) -> Mapping[str, Agreement]:
        """Return how critics of a tenant agreed with people and validators."""
        return await agreements_of(self._committer, tenant, critics)

    @refusing
    async def calibrations(self, tenant: str, limit: int) -> tuple[CalibratedKind, ...]:
        """Return what was learnt in at most `limit` rows: kinds, the newest first, then critics."""
        listed = await self._committer.execute("ZREVRANGE", keys.all_learnt(tenant), 0, limit - 1)
        *kinds, critics = await asyncio.gather(
            *(self._committer.execute("HGETALL", it) for it in (*listed, keys.trust(tenant)))
        )
        return calibrations(kinds, critics)[:limit]
