"""What workers share of the limits and outages of models, and of what their servers reject."""

import asyncio
import json
import logging
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Protocol, cast

from redis.exceptions import RedisError

from app.contract.offers import ModelLimit, OpenBreaker
from app.contract.values import value
from app.contract.waiting import WaitReason
from app.store.redis import keys
from app.store.redis.committer import Commands, Committer, redis_time_ms, replies_in_order
from app.store.redis.scripts import PERMITS

MOST_SHOWN = 500


@dataclass(slots=True)
class PermitReport:
    """What a worker has seen of a model since its last report, and how many permits it wants.

    `number`: of the report; a repeated one changes nothing and is answered as before.
    `parked`: how many of the permits are for refinements that have to be claimed first.
    `epoch`: `accepted` and `refused` belong to it.
    `recent`: calls that were accepted within the last second; `was_free`: without permits.
    `answered` and `bad`: calls that were answered, and that failed as in an outage; `ok`: those
    answered after the last of these failures.
    `input` and `output`: expected tokens of a call.
    `limits` (by kind) are what the server reported, `caps` what settings allow: requests and tokens
    a minute, and calls in flight.
    `away_ms`: of a worker in another cell, for how long its share of the rate is kept for it
    without reports; `call_ms`: how long a call of it may take.
    """

    number: int = 0
    wanted: int = 0
    parked: int = 0
    returned: int = 0
    in_flight: int = 0
    epoch: int = 0
    accepted: int = 0
    refused: int = 0
    retry_after: float = -1
    recent: int = 0
    was_free: bool = False
    ok: int = 0
    answered: int = 0
    bad: int = 0
    bad_reason: WaitReason | None = None
    key_reason: WaitReason | None = None
    detail: str = ""
    input: float = 1
    output: float = 1
    limits: Mapping[str, Mapping[str, float]] | None = None
    caps: Mapping[str, float] | None = None
    away_ms: float | None = None
    call_ms: float | None = None

    def encode(self) -> str:
        """Return it as JSON without what is not there: Lua reads null as a value."""
        return json.dumps({k: v for k, v in asdict(self).items() if v is not None})


@value(slots=True)
class Permits:
    """The answer to a report: permits, and the state of the limits and of the breaker.

    `granted`: permits for calls that wait; `parked`: those for refinements to be claimed.
    `blocked`: no call was accepted since the last was refused.
    `rate`: calls a second that all workers together may make, 0 while unknown.
    `paused_ms`: until calls are allowed, or until the next probe of an open breaker, which
    `reason` and `detail` tell of.
    """

    granted: int
    parked: int = 0
    leased: bool = False
    blocked: bool = False
    epoch: int = 0
    rate: float = 0
    workers: int = 1
    paused_ms: float = 0
    reason: WaitReason | None = None
    detail: str = ""
    of_provider: bool = False


class PermitExchange(Protocol):
    """Exchanges reports for permits, with all workers. Raises redis errors."""

    async def exchange(self, model: str, provider: str, report: PermitReport) -> Permits: ...


@value()
class SharedLimits:
    """The exchange through Redis, of one worker."""

    committer: Commands
    worker: str

    async def exchange(self, model: str, provider: str, report: PermitReport) -> Permits:
        """Report and receive permits, by the time of Redis."""
        words = permit_words(model, provider, self.worker, report)
        return permits_in(await self.committer.submit(PERMITS, *words))


def permit_words(
    model: str, provider: str, worker: str, report: PermitReport, now_ms: float | None = None
) -> tuple[str, ...]:
    """Return the arguments of the script; with `now_ms` it goes by that time."""
    return (model, provider, worker, "" if now_ms is None else str(now_ms), report.encode())


def permits_in(answer: bytes) -> Permits:
    """Return the answer of the script."""
    return Permits(**json.loads(answer))


@value(slots=True)
class StoredLimit:
    """The state of a model or a provider, for one key and address, by their fingerprint."""

    fingerprint: str
    limit: ModelLimit


async def parked_by_model(committer: Committer, tenants: int = 0) -> dict[str, int]:
    """Return how many refinements each model is waited for by, of the first `tenants`; 0: of all.

    Raises redis errors.
    """
    models = [model.decode() for model in await committer.execute("SMEMBERS", keys.PARKED)]
    counts = await asyncio.gather(*(_parked(committer, model, tenants) for model in models))
    return {model: count for model, count in zip(models, counts, strict=True) if count}


async def _parked(committer: Committer, model: str, tenants: int) -> int:
    turns = await committer.execute("ZRANGE", keys.PARKED + f":{model}", 0, tenants - 1)
    found = (keys.PARKED_OF + f"{tenant.decode()}:{model}" for tenant in turns)
    return sum(await asyncio.gather(*(committer.execute("ZCARD", key) for key in found)))


async def stored_limits(committer: Committer) -> tuple[StoredLimit, ...]:
    """Return what is limited, or has an open breaker; the most recently used first."""
    at_ms = await redis_time_ms(committer)
    names = await committer.execute("ZREVRANGE", keys.LIMITS, 0, MOST_SHOWN - 1)
    read = [(name.decode(), _state(committer, name.decode(), at_ms)) for name in names]
    states = {name: await state for name, state in read}
    found = [
        _stored_limit(name, *state, _provider_of(name, states), at_ms)
        for name, state in states.items()
    ]
    return tuple(limit for limit in found if limit is not None)


def _provider_of(name: str, states: Mapping[str, tuple[dict[str, str], int]]) -> dict[str, str]:
    model, _, fingerprint = name.rpartition("@")
    found, _ = states.get(f"{model.partition(':')[0]}@{fingerprint}", ({}, 0))
    return found


async def _state(committer: Committer, name: str, now_ms: float) -> tuple[dict[str, str], int]:
    """Return the fields of a limit, and the calls under way of workers that still report."""
    key = keys.LIMIT + name
    fields, reporting = await asyncio.gather(
        committer.execute("HGETALL", key),
        committer.execute("ZRANGE", key + ":expiries", f"({now_ms}", "+inf", "BYSCORE"),
    )
    calls = await committer.execute("HMGET", key + ":workers", *reporting) if reporting else ()
    in_flight = sum(int(count) for count in calls if count is not None)
    return {key.decode(): value.decode() for key, value in fields.items()}, in_flight


def _stored_limit(
    name: str, state: dict[str, str], in_flight: int, provider: dict[str, str], now_ms: int
) -> StoredLimit | None:
    model, _, fingerprint = name.rpartition("@")
    breaker = None
    if "open_at" in state and not _has_recovered(state, provider):
        breaker = OpenBreaker(
            reason=cast("WaitReason", state["reason"]),
            detail=state["detail"],
            since=_time(state["open_at"]),
            next_probe_at=_time(state["probe_at"]),
            probes=int(float(state.get("probes", 0))),
        )
    is_limited = float(state.get("leased_until", 0)) > now_ms
    if breaker is None and not is_limited:
        return None
    paused_ms = float(state.get("paused_until", 0))
    limit = ModelLimit(
        name=model,
        calls_per_s=round(float(state["rate"]), 3) if is_limited and "rate" in state else None,
        in_flight=in_flight,
        paused_until=_time(state["paused_until"]) if paused_ms > now_ms else None,
        breaker=breaker,
    )
    return StoredLimit(fingerprint, limit)


def _has_recovered(state: dict[str, str], provider: dict[str, str]) -> bool:
    """Return whether its provider is known to work again, which its own next call will find out."""
    if "is_heard" in state:
        return "open_at" not in provider
    if state["reason"] != "unreachable":
        return False
    tried_at = float(state["probe_at"]) - float(state["interval"])
    return float(provider.get("answered_at", 0)) > tried_at


def _time(milliseconds: str) -> datetime:
    return datetime.fromtimestamp(float(milliseconds) / 1000, UTC)


KEPT_S = 86_400
"""A server may accept later what it rejects now."""

_log = logging.getLogger(__name__)


@value(slots=True)
class Rejections:
    """What workers share of one server, whose address and key `fingerprint` stands for."""

    committer: Commands
    fingerprint: str

    async def read(self, name: str) -> frozenset[str] | None:
        """Return what was rejected for a name within a day; None while Redis is away."""
        try:
            found = await self.committer.execute("SMEMBERS", self._key(name))
        except (RedisError, OSError, TimeoutError):
            return None
        return frozenset(member.decode() for member in found)

    async def add(self, name: str, rejected: Collection[str]) -> None:
        """Remember for a day, counted from the last addition, what was rejected for a name."""
        try:
            key, execute = self._key(name), self.committer.execute
            await replies_in_order(execute("SADD", key, *rejected), execute("EXPIRE", key, KEPT_S))
        except (RedisError, OSError, TimeoutError) as error:
            _log.warning("what a model rejects is not shared while Redis is away: %s", error)

    def _key(self, name: str) -> keys.Key:
        return keys.REJECTED + f"{name}@{self.fingerprint}"
