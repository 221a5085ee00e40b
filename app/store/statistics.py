"""The sums over ended refinements: what an ending adds to them, and what they say.

The script that ends a refinement keeps its `Addition`s with the record; `count_endings` in sums.lua
adds those of many to the sums: each once, within 5 seconds while a worker runs, and before a record
goes. Until then the sums are without it, also for the next refinement of its kind. A hash per
tenant and day has what was consumed (`usage`), another what drafts have gained (`insights`), a
third what drawn models achieved (`models`). The calibration is not by day: two hashes grow with
each refinement, of its own kind, and of all kinds with the same models. A third one has how far
each critic of a tenant can be trusted.
"""

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import chain
from math import exp, sqrt
from typing import Any, Self

from pydantic_core import from_json, to_json
from redis.exceptions import RedisError

from app.contract.errors import FieldError, InvalidRequest
from app.contract.judgement import AUTO
from app.contract.models import GENERATOR
from app.contract.requests import RefinementRequest
from app.contract.statistics import (
    KEPT_DAYS,
    CalibratedKind,
    Dimension,
    FirstDrafts,
    Key,
    Learnt,
    ModelAchievement,
    ModelUse,
    Sums,
    UsageCell,
    UsageGrouping,
    UsageGroups,
    UsageReport,
)
from app.contract.values import value
from app.store.cell_records import note_missing
from app.store.redis import keys
from app.store.redis.codec import decode_sums, moment, readable_sums
from app.store.redis.committer import Commands, Committer, replies_in_order, scanned
from app.store.redis.connection import refusing
from app.store.redis.keys import Word
from app.store.state import Addition, NewRefinement

DECAY = 0.99
"""What is left of a sum at each addition: about the latest 100 count."""

FEWEST_KNOWN = 9
"""Refinements of a kind from which on its own sums are taken: what decay leaves of 10."""

DIGITS = 16
"""Hexadecimal digits of the SHA-256 that names a kind, or a set of criteria."""

PRIOR_TRUST = 0.5
PRIOR_WEIGHT = 1.0
"""The prior weighs as much as 25 pairs of drafts whose scores differ by 0.2."""


def _digest(named: object) -> str:
    return hashlib.sha256(to_json(named)).hexdigest()[:DIGITS]


def _rubric_of(request: RefinementRequest) -> object:
    """Return what its drafts are judged by: criteria with the same hash are the same."""
    if request.criteria == AUTO:
        return AUTO
    return [[found.name, found.description, found.weight] for found in request.judged_on()]


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
        return cls(
            generator=" > ".join(
                models[seat] for seat in (GENERATOR, *request.models.later_generators())
            ),
            critic=critic_of(request, models),
            criteria=_digest(_rubric_of(request)),
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
    """Return a refinement's additions to the sums of its kind and to the sums of its models."""
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


def _by_name(record: Kind | Hypotheses) -> dict[str, Any]:
    return {member.name: getattr(record, member.name) for member in fields(record)}


def agreements(tenant: str, critic: str, pairs: Iterable[Agreement]) -> tuple[Addition, ...]:
    """Return what pairs of drafts add to the trust in a critic; nothing if there are none."""
    found = [(of.pairs, of.product, of.square) for of in pairs if of.square > 0]
    if not found:
        return ()
    sums = tuple(map(sum, zip(*found, strict=True)))
    return (Addition(keys.trust(tenant), {f"pairs {critic}": sums}, decay=DECAY),)


def outcome_of(tenant: str, kind: Kind, chance: float, *, is_met: bool) -> Addition:
    """Return what a predicted chance and a person's word on it add to the sums of its kind.

    They go with the evidence: without a version they begin no sums that other releases read.
    """
    sums = {"rated": (1.0, float(is_met), chance, chance * (1 - chance))}
    return Addition(keys.learnt(tenant, kind.own), sums, decay=DECAY)


def rated_once(tenant: str, critic: str) -> Addition:
    """Return a rating's addition to the number of ratings of a critic's drafts."""
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


def added_up(learnt: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the sums of several cells about the same, added up; of two versions the first."""
    found: dict[bytes, Mapping[str, Any]] = {}
    for sums in learnt:
        name = to_json(sums["about"])
        before = found.setdefault(name, sums)
        if before is not sums and before.get("version") == sums.get("version"):
            found[name] = {
                **before,
                **{of: _plus(before.get(of), more) for of, more in sums.items()},
            }
    return [*found.values()]


def _plus(sums: Any, more: Any) -> Any:
    both = isinstance(sums, list) and isinstance(more, list)
    return [one + other for one, other in zip(sums, more, strict=False)] if both else sums or more


def calibrations(
    kinds: Iterable[Mapping[str, Any]], critics: Mapping[str, Any]
) -> tuple[CalibratedKind, ...]:
    """Return what is known of kinds, and of critics of whom nothing else is known."""
    known = {name: sums for name, sums in critics.items() if name != "about"}
    rows = [_calibration(kind, known) for kind in kinds]
    named = {name.partition(" ")[2] for name in known} - {row.critic for row in rows}
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
    return [
        probability * exp(said - most) for probability, said in zip(prior, evidence, strict=False)
    ]


def _mean(weights: Sequence[float], values: Sequence[float]) -> float | None:
    total = sum(weights)
    if not total:
        return None
    return sum(weight * number for weight, number in zip(weights, values, strict=True)) / total


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

    @classmethod
    def of(cls, stored: bytes | None) -> Self:
        """Return what is stored of a day, if anything is."""
        if stored is None:
            return cls()
        ended, passed, gain, squares, priced, cost_usd = decode_sums(stored)
        return cls(int(ended), int(passed), gain, squares, int(priced), cost_usd)

    def __add__(self, other: "Achieved") -> "Achieved":
        """Add both."""
        return Achieved(
            *(getattr(self, member.name) + getattr(other, member.name) for member in fields(self))
        )

    @property
    def mean_cost_usd(self) -> float | None:
        """The mean cost of one refinement; None if there is none."""
        return self.cost_usd / self.priced if self.priced else None

    @property
    def mean_gain(self) -> float | None:
        """The mean gain of one refinement; None if there is none."""
        return self.gain / self.ended if self.ended else None


Candidates = Mapping[str, Sequence[str]]
"""Models by the seat for which one of them is drawn."""


def kind_of_task(request: RefinementRequest) -> str:
    """Return the name of what refinements have in common that models are compared in.

    That is their strategy, their criteria and their preset.
    """
    return _digest([request.strategy.kind, _rubric_of(request), request.preset])


def drawn_in(new: NewRefinement) -> bytes | None:
    """Return what the record says of the models that were drawn; None if nothing is learnt.

    Seats of a stage have its name, which does not stay if the texts are not to be stored.
    """
    queued = new.queued
    draws = queued.draws if queued.draw is None else {"generator": queued.draw, **queued.draws}
    if not new.request.store:
        draws = {seat: draw for seat, draw in draws.items() if "/" not in seat}
    if not new.request.learn or not draws:
        return None
    kind = next(iter(draws.values())).kind
    return to_json({"kind": kind, "models": {seat: draw.picked for seat, draw in draws.items()}})


def insight_additions(gained: Mapping[Key, Sums]) -> tuple[Addition, ...]:
    """Return what the gains of a refinement add to the sums of its day."""
    sums = {f"{by} {group}": numbers for (by, group), numbers in gained.items()}
    return (Addition("insights", sums),) if sums else ()


EPOCH = date(1970, 1, 1)
USAGE_DAYS = 30
READ_AT_ONCE = 50
MOST_GROUPS = 10_000

TenantDay = tuple[str, date]
StoredDay = tuple[TenantDay, Mapping[bytes, bytes]]
Cells = list[tuple[UsageCell, int, ModelUse]]
"""Each with the number of endings."""


def _rows(days: Iterable[StoredDay], words: int) -> Iterator[tuple[Any, ...]]:
    """Yield a day, the words of a name, the last of which may have spaces, and the sums."""
    for day, stored in days:
        for name, sums in stored.items():
            yield day, *name.decode().split(" ", words - 1), sums


def _cells(days: Iterable[StoredDay]) -> Cells:
    cells: Cells = []
    for (tenant, day), outcome, strategy, key, model, sums in _rows(days, 4):
        endings, *use = map(int, decode_sums(sums))
        cell = UsageCell(day, tenant, "" if key == "-" else key, model, strategy, outcome)
        cells.append((cell, endings, ModelUse(*use)))
    return cells


def _insights(days: Iterable[StoredDay], by: Collection[Dimension]) -> dict[Key, Sums]:
    total: dict[Key, Sums] = {}
    for _, dimension, group, sums in _rows(days, 2):
        if dimension in by:
            key = Dimension(dimension), group
            total[key] = total.get(key, Sums()) + decode_sums(sums)
    return total


def _invalid_usage(parameter: str, detail: str) -> InvalidRequest:
    error = FieldError(pointer=f"/{parameter}", detail=detail)
    return InvalidRequest(f"query {parameter}: {detail}", errors=(error,))


async def unlist(committer: Commands, tenant: str) -> None:
    """Remove the days of a tenant from the list; the hashes themselves are deleted elsewhere."""
    async for page in scanned(committer, "ZSCAN", keys.STATISTICS, match=f"{tenant}:*"):
        if listed := [name for name, _ in page]:
            await committer.execute("ZREM", keys.STATISTICS, *listed)


class Statistics:
    """Reads the sums over ended refinements. Every method raises Unavailable."""

    def __init__(self, committer: Committer, *others: Committer) -> None:
        """`others`: those of other cells, whose sums are added; away ones are left out."""
        self._committer = committer
        self._others = others

    async def _replies(self, *command: Word) -> list[Any]:
        """Return the reply of each cell to a command."""
        first = self._committer.execute(*command)
        if not self._others:
            return [await first]
        asked = [first, *(other.execute(*command) for other in self._others)]
        replies = await asyncio.gather(*asked, return_exceptions=True)
        errors = {n: reply for n, reply in enumerate(replies) if isinstance(reply, Exception)}
        if len(errors) == len(replies):
            raise errors[0]
        note_missing(errors)
        return [reply for n, reply in enumerate(replies) if n not in errors]

    @refusing
    async def days(
        self, tenant: str | None, first: date | None, last: date | None, default_days: int
    ) -> tuple[date, date, list[TenantDay]]:
        """Return the first and the last day, and those between for which there is usage.

        It is that of a tenant, or of all. The last day is today unless given, in UTC; without a
        first one there are `default_days`.
        """
        last = last or await self._today()
        if first is None:
            first = date.fromordinal(max(1, last.toordinal() - default_days + 1))
        bounds = ((day - EPOCH).days for day in (first, last))
        found = await self._replies("ZRANGEBYSCORE", keys.STATISTICS, *bounds)
        listed = dict.fromkeys(chain.from_iterable(found))
        named = (member.decode().rsplit(":", 1) for member in listed)
        days = ((name, EPOCH + timedelta(days=int(day))) for name, day in named)
        return first, last, [tenant_day for tenant_day in days if tenant in (None, tenant_day[0])]

    @refusing
    async def usage_of(self, days: Sequence[TenantDay]) -> Cells:
        """Return what refinements have consumed that ended on some tenants' days."""
        return await asyncio.to_thread(_cells, await self._stored("usage", days))

    async def usage(
        self,
        tenant: str | None,
        first: date | None,
        last: date | None,
        by: Sequence[UsageGrouping],
    ) -> UsageReport:
        """Return what the refinements of a tenant, or of all, have consumed in some days.

        Raises InvalidRequest if the last day is before the first, or there are too many groups.
        """
        first, last, days = await self.days(tenant, first, last, USAGE_DAYS)
        if first > last:
            raise _invalid_usage("from", f"it is after the last day, {last}")
        groups, shown = UsageGroups(by), {"from": first, "to": last, "as_of": await self._as_of()}
        for i in range(0, len(days), READ_AT_ONCE):
            groups.add(await self.usage_of(days[i : i + READ_AT_ONCE]))
            if len(groups) > MOST_GROUPS:
                detail = f"there are more than {MOST_GROUPS} groups: ask for fewer days"
                raise _invalid_usage("group_by", f"{detail}, or group by less")
        return UsageReport.model_validate({**shown, "data": groups.rows(), "total": groups.total()})

    @refusing
    async def _as_of(self) -> datetime:
        """Return a time before which all endings are in the sums that are read from now on."""
        times, oldest = await asyncio.gather(
            self._replies("TIME"),
            self._replies("ZRANGE", keys.TO_COUNT, 0, 0, "WITHSCORES"),
        )
        now = min(seconds * 1000 + microseconds // 1000 for seconds, microseconds in times)
        return moment(min([now, *(int(at) for found in oldest for at in found[1:])]))

    @refusing
    async def insights(
        self, tenant: str, since: date | None, by: Collection[Dimension]
    ) -> tuple[date, dict[Key, Sums]]:
        """Return the sums of gains since a day, and that day: the first one that is kept, if later.

        Without a day, all that are kept count.
        """
        today = await self._today()
        first = max(since or date.min, today - timedelta(days=KEPT_DAYS - 1))
        stored = await self._stored("insights", _days_of(tenant, first, today))
        return first, await asyncio.to_thread(_insights, stored, by)

    @refusing
    async def achieved(
        self, tenant: str, kind: str, candidates: Candidates
    ) -> Mapping[str, Mapping[str, Achieved]]:
        """Return by seat what models have achieved in the tasks of a kind they were drawn for.

        The last 30 days count.
        """
        today = datetime.now(UTC).date() + timedelta(days=1)  # the clock of Redis may be ahead
        names = [f"{kind} {seat} {model}" for seat, of in candidates.items() for model in of]
        days = _days_of(tenant, today - timedelta(days=REMEMBERED_DAYS), today)
        stored = await asyncio.gather(
            *(
                self._committer.execute("HMGET", keys.statistics("models", *tenant_day), *names)
                for tenant_day in days
            )
        )
        totals = dict.fromkeys(names, Achieved())
        for name, sums in chain.from_iterable(zip(names, reply, strict=True) for reply in stored):
            totals[name] += Achieved.of(sums)
        return {
            seat: {model: totals[f"{kind} {seat} {model}"] for model in of}
            for seat, of in candidates.items()
        }

    @refusing
    async def models(self, tenant: str, limit: int) -> tuple[ModelAchievement, ...]:
        """Return what drawn models have achieved in the last 30 days, by kind and seat."""
        today = await self._today()
        days = _days_of(tenant, today - timedelta(days=REMEMBERED_DAYS - 1), today)
        totals = defaultdict[tuple[str, ...], Achieved](Achieved)
        for _, *name, sums in _rows(await self._stored("models", days), 3):
            totals[tuple(name)] += Achieved.of(sums)
        return tuple(
            ModelAchievement(
                kind=kind,
                seat=seat,
                model=model,
                ended=total.ended,
                passed=total.passed,
                mean_gain=total.mean_gain,
                mean_cost_usd=total.mean_cost_usd,
            )
            for (kind, seat, model), total in sorted(totals.items(), key=lambda row: row[0])[:limit]
            if total.ended  # else a retry has taken it back
        )

    @refusing
    async def agreements(self, tenant: str, critics: Sequence[str]) -> Mapping[str, Agreement]:
        """Return how critics agreed with people and validators, all kinds together."""
        if not critics:
            return {}
        names = [f"pairs {critic}" for critic in critics]
        stored = await self._committer.execute("HMGET", keys.trust(tenant), *names)
        sums = (() if entry is None else decode_sums(entry) for entry in stored)
        return {critic: Agreement(*numbers) for critic, numbers in zip(critics, sums, strict=True)}

    @refusing
    async def calibrations(self, tenant: str, limit: int) -> tuple[CalibratedKind, ...]:
        """Return what was learnt in at most `limit` rows: kinds, the newest first, then critics."""
        learnt = [await self._learnt(self._committer, tenant, limit)]
        for number, other in enumerate(self._others, 1):
            try:
                learnt.append(await self._learnt(other, tenant, limit))
            except (RedisError, TimeoutError):
                note_missing([number])
        kinds = [_members(kind) for kinds, _ in learnt for kind in kinds if kind]
        critics = added_up({"about": "critics", **_members(critics)} for _, critics in learnt)
        return calibrations(added_up(kinds), critics[0])[:limit]

    async def _learnt(
        self, committer: Committer, tenant: str, limit: int
    ) -> tuple[list[dict[bytes, bytes]], dict[bytes, bytes]]:
        """Return what one cell has of the newest kinds, and of critics."""
        listed = await committer.execute("ZREVRANGE", keys.all_learnt(tenant), 0, limit - 1)
        *kinds, critics = await asyncio.gather(
            *(committer.execute("HGETALL", key) for key in (*listed, keys.trust(tenant)))
        )
        return kinds, critics

    async def _today(self) -> date:
        (seconds, _), *_others = await self._replies("TIME")
        return datetime.fromtimestamp(seconds, UTC).date()

    async def _stored(self, of: str, days: Sequence[TenantDay]) -> list[StoredDay]:
        names = (keys.statistics(of, *tenant_day) for tenant_day in days)
        found = await asyncio.gather(*(self._replies("HGETALL", name) for name in names))
        return [(day, sums) for day, cells in zip(days, found, strict=True) for sums in cells]


def _days_of(tenant: str, first: date, last: date) -> list[TenantDay]:
    return [(tenant, first + timedelta(days=offset)) for offset in range((last - first).days + 1)]
