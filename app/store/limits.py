"""What workers share of the limits and outages of models."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Protocol

from redis.asyncio import Redis

from app.contract.events import WaitReason
from app.store.scripts import PERMITS, run


@dataclass(slots=True)
class PermitReport:
    """What a worker has seen of a model since its last report, and how many permits it wants.

    `number`: of the report; a repeated one changes nothing and is answered as before.
    `parked`: how many of the permits are for refinements that have to be claimed first.
    `epoch` is that of `accepted` and `refused`.
    `recent`: calls that were accepted within the last second; `was_free`: without permits.
    `answered` and `bad`: calls that were answered, and that failed as in an outage; `ok`: those
    answered after the last of these failures.
    `input` and `output`: expected tokens of a call.
    `limits` (by kind) are what the server reported, `caps` what settings allow: requests and tokens
    a minute, and calls in flight.
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

    def encode(self) -> str:
        """Return it as JSON without what is not there: Lua reads null as a value."""
        return json.dumps({k: v for k, v in asdict(self).items() if v is not None})


@dataclass(frozen=True, slots=True)
class Permits:
    """The answer to a report: permits, and the state of the limits and of the breaker.

    `granted`: permits for calls that wait; `parked`: those for refinements to be claimed.
    `blocked`: no call was accepted since the last was refused.
    `rate`: calls a second that all workers together may make, 0 while unknown.
    `paused_ms`: until calls are allowed, or until the next probe of an open breaker, which
    `reason`, `detail` and `since` tell of.
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
    since: float = 0
    of_provider: bool = False


class PermitExchange(Protocol):
    """Exchanges reports for permits, with all workers. Raises redis errors."""

    async def exchange(self, model: str, provider: str, report: PermitReport) -> Permits: ...


@dataclass(frozen=True)
class SharedLimits:
    """The exchange through Redis, of one worker."""

    client: Redis
    worker: str

    async def exchange(self, model: str, provider: str, report: PermitReport) -> Permits:
        """Report and receive permits, by the time of Redis."""
        words = permit_words(model, provider, self.worker, report)
        return permits_in(await run(self.client, PERMITS, *words))


def permit_words(
    model: str, provider: str, worker: str, report: PermitReport, now_ms: float | None = None
) -> tuple[str, ...]:
    """Return the arguments of the script; with `now_ms` it goes by that time."""
    return (model, provider, worker, "" if now_ms is None else str(now_ms), report.encode())


def permits_in(answer: bytes) -> Permits:
    """Return the answer of the script."""
    return Permits(**json.loads(answer))
