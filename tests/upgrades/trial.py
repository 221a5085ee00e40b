"""An upgrade and a rollback of a service that is being used, process by process."""

import asyncio
import signal
import subprocess
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.running_service import RunningService, running_service
from tests.waiting import TIMEOUT_S
from workers.rq import end

REVIEWED = {"when": "before_completion"}


@dataclass
class TrialOutcome:
    """What became of what was submitted, and of the calls of the model."""

    submitted: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    gaps: int = 0  # journals whose events are not numbered 1, 2, 3 ...
    lost: int = 0  # submissions that were accepted and are not found
    doubled: int = 0  # submissions that a repeated key led to another refinement
    calls: int = 0
    repeated: int = 0
    in_flight: int = 0  # calls in flight when workers were told to end
    resumed: int = 0  # claims that took over work in progress
    by_version: Counter[str] = field(
        default_factory=Counter
    )  # submissions, by the API that took them

    def summary(self) -> str:
        ended = ", ".join(f"{count} {status}" for status, count in self.statuses.items())
        taken = ", ".join(f"{count} by the {name}" for name, count in self.by_version.items())
        return (
            f"{self.submitted} submitted ({taken}): {ended}; {self.lost} lost, {self.doubled}"
            f" doubled, {self.gaps} with gaps; {self.calls} calls of the model, {self.repeated}"
            f" repeated, {self.in_flight} in flight when workers were told to end;"
            f" {self.resumed} claims took over work in progress"
        )


@dataclass
class Traffic:
    """A client that submits at a pace, and repeats what was not answered with the same key."""

    client: httpx.AsyncClient
    every_s: float
    ids: dict[str, str] = field(default_factory=dict)  # by idempotency key
    version: str = "old version"
    by_version: Counter[str] = field(default_factory=Counter)

    async def submit(self, key: str, **fields: Any) -> str:
        body = {"task": f"Explain refunds, {key}.", "max_iterations": 9, **fields}
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                try:
                    answer = await self.client.post(
                        "/v1/refinements", json=body, headers={"Idempotency-Key": key}
                    )
                    if answer.status_code in {200, 202}:
                        return str(answer.json()["id"])
                    assert answer.status_code == 503, answer.text
                except httpx.TransportError:
                    pass
                await asyncio.sleep(0.05)

    async def run(self) -> None:
        """Submit until cancelled."""
        while True:
            key = uuid.uuid4().hex
            self.ids[key] = await self.submit(key)
            self.by_version[self.version] += 1
            await asyncio.sleep(self.every_s)

    async def take(self, version: str, seconds: float) -> None:
        """Submit for so long, and at least once, to the API of a version."""
        self.version = version
        await asyncio.sleep(seconds)
        async with asyncio.timeout(TIMEOUT_S):
            while not self.by_version[version]:  # noqa: ASYNC110 - `run` counts
                await asyncio.sleep(0.05)

    async def doubled(self) -> int:
        """Submit everything once more, and count what led to another refinement."""
        again = [await self.submit(key) for key in self.ids]
        return sum(one != other for one, other in zip(again, self.ids.values(), strict=True))


@dataclass
class Rollout:
    """The processes of a service, and how to replace them."""

    service: RunningService
    stop: signal.Signals
    api: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]
    in_flight: int = 0

    async def replace_workers(self, code: Path | None) -> None:
        """Replace the workers one by one; the new one runs before the old one ends."""
        for old in list(self.workers):
            self.workers.append(self.service.worker(code))
            await self.service.ready(len(self.workers))
            self.in_flight += self.service.models.counts.in_flight
            await _ended(old, self.stop)
            self.workers.remove(old)

    async def replace_api(self, code: Path | None) -> None:
        await _ended(self.api, signal.SIGTERM)
        self.api = self.service.start("app.cli", "api", code=code)
        await self.service.ready(len(self.workers))


async def _ended(process: subprocess.Popen[bytes], stop: signal.Signals) -> None:
    process.send_signal(stop)
    await asyncio.to_thread(process.wait)


async def upgrade_and_roll_back(
    folder: Path,
    old: Path | None,
    new: Path | None,
    *,
    workers: int = 2,
    every_s: float = 0.2,
    phase_s: float = 5.0,
    latency_s: float = 0.3,
    stop: signal.Signals = signal.SIGTERM,
) -> TrialOutcome:
    """Upgrade workers, then the API; roll back the API, then the workers, as the page says.

    A client submits meanwhile. `old` and `new` are folders of versions; None is this one. Workers
    are ended by `stop`.
    """
    async with running_service(folder, workers=workers, code=old, concurrency=20) as service:
        service.models.latency_s = latency_s
        traffic = Traffic(service.client, every_s)
        api, *started = service.processes
        rollout = Rollout(service, stop, api, started)
        waits = await traffic.submit("reviewed", max_iterations=1, review=REVIEWED)
        submitting = asyncio.create_task(traffic.run())
        await traffic.take("old version", phase_s)
        await rollout.replace_workers(new)
        await rollout.replace_api(new)
        await traffic.take("new version", phase_s)
        await rollout.replace_api(old)
        made_by_new = list(traffic.ids.values())
        await traffic.take("old version, rolled back", phase_s)
        await _all_ended(service, made_by_new)  # else they may wait for a worker that plays them
        await rollout.replace_workers(old)
        await asyncio.sleep(phase_s)
        await end([submitting])
        review = await service.client.post(
            f"/v1/refinements/{waits}/reviews", json={"action": "approve"}
        )
        assert review.is_success, review.text
        outcome = await _outcome(service, traffic, [*traffic.ids.values(), waits])
        outcome.in_flight = rollout.in_flight
        return outcome


async def _all_ended(service: RunningService, ids: Sequence[str]) -> list[Any]:
    return [await service.ended(it) for it in ids]


async def _outcome(service: RunningService, traffic: Traffic, ids: Sequence[str]) -> TrialOutcome:
    doubled = await traffic.doubled()
    answers = [await service.client.get(f"/v1/refinements/{it}") for it in ids]
    found = [it for it, answer in zip(ids, answers, strict=True) if answer.status_code == 200]
    ended = await _all_ended(service, found)
    journals = [await service.events(it) for it in found]
    keys = service.models.counts.keys
    return TrialOutcome(
        submitted=len(ids),
        statuses=Counter(it["status"] for it in ended),
        gaps=sum([it["event"] for it in one] != [*range(1, len(one) + 1)] for one in journals),
        lost=len(ids) - len(found),
        doubled=doubled,
        calls=keys.total(),
        repeated=keys.total() - len(keys),
        resumed=sum(it["type"] == "refinement.resumed" for one in journals for it in one),
        by_version=traffic.by_version,
    )
