"""An endpoint of a validator that is away is waited for like a provider."""

import asyncio
import json
from dataclasses import dataclass, field

import pytest

from app.contract.endpoints import Endpoint
from app.contract.events import IterationCompleted
from app.contract.status import Status, StopReason
from tests.waiting import TIMEOUT_S
from tests.workers.refinement_harness import TENANT, RefinementHarness, ScriptedAnswers, scores
from tests.workers.test_waiting import end_overdue
from workers.models.rate_limiter import FAILURES, MOST_GATES
from workers.outbound.guarded_client import (
    EndpointAway,
    EndpointClient,
    EndpointUnavailable,
    EndpointWaits,
)
from workers.outbound.transport import MOST_ASKED
from workers.play.endpoints import (
    LONGEST_NAME,
    EndpointLimiter,
    LimitedEndpoints,
    endpoint_wait_name,
)
from workers.validators.running import ServerResources

NAME = f"endpoint:checks.example.com/tone#{TENANT}"
TONE = {"kind": "http", "url": "https://Checks.example.com/tone?key=secret"}
PASSED = json.dumps({"passed": True}).encode()


@dataclass
class ScriptedEndpoint(EndpointClient):
    """Gives these answers in turn, and then passes every draft."""

    answers: list[EndpointUnavailable | bytes] = field(default_factory=list)
    called: int = 0
    has_refused: asyncio.Event = field(default_factory=asyncio.Event)

    async def post(self, endpoint: Endpoint, body: bytes, key: str, tenant: str = "") -> bytes:
        self.called += 1
        answer = self.answers.pop(0) if self.answers else PASSED
        if isinstance(answer, bytes):
            return answer
        self.has_refused.set()
        raise answer


@dataclass
class HangingEndpoint(ScriptedEndpoint):
    """Gives its answers in turn, and then none until it is told to go on."""

    hangs: asyncio.Event = field(default_factory=asyncio.Event)
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def post(self, endpoint: Endpoint, body: bytes, key: str, tenant: str = "") -> bytes:
        if not self.answers:
            self.hangs.set()
            await self.goes_on.wait()
        return await super().post(endpoint, body, key, tenant)


class CancelledEndpoint(ScriptedEndpoint):
    """Raises what asyncio raises in a task that is cancelled."""

    async def post(self, endpoint: Endpoint, body: bytes, key: str, tenant: str = "") -> bytes:
        raise asyncio.CancelledError


def away(retry_after_s: float | None = None) -> EndpointAway:
    return EndpointAway("the endpoint is away", "overloaded", retry_after_s)


def models(endpoint: ScriptedEndpoint, *given: float) -> ScriptedAnswers:
    answers = scores(*given)
    return ScriptedAnswers(answers.answer, outside=ServerResources(endpoints=endpoint))


async def test_a_moment_is_waited_for_in_the_worker(harness: RefinementHarness) -> None:
    endpoint = ScriptedEndpoint([away(), away(0.01)])
    refinement_id = await harness.submit(validators=[TONE])
    ended = await harness.play(refinement_id, models(endpoint, 0.9))
    assert (ended.status, ended.outcome, endpoint.called) == (Status.SUCCEEDED, "passed", 3)


@pytest.mark.parametrize("asked_s", [60, MOST_ASKED])
async def test_longer_it_is_parked_and_goes_on_with_a_permit(
    harness: RefinementHarness, asked_s: float
) -> None:
    endpoint = ScriptedEndpoint([away(asked_s)])
    refinement_id = await harness.submit(validators=[TONE])
    worker = harness.worker(models(endpoint, 0.9))
    await harness.deliver(worker, refinement_id)
    parked = await harness.snapshot(refinement_id)
    assert parked.status is Status.RUNNING
    assert parked.waiting is not None
    assert (parked.waiting.model, parked.waiting.reason) == (NAME, "overloaded")
    assert parked.waiting.key == "iterations/1/check"
    assert await harness.worker_store.parked(9) == {NAME: 1}
    assert await harness.resume(NAME) == 1
    await harness.deliver(worker, refinement_id)
    ended = await harness.snapshot(refinement_id)
    assert (ended.status, ended.outcome, endpoint.called) == (Status.SUCCEEDED, "passed", 2)
    assert ended.waiting is None


@pytest.mark.parametrize("accept", [(), ("validator_skipped",)])
async def test_one_that_only_warns_is_not_waited_for_and_what_it_did_not_check_is_said(
    harness: RefinementHarness, accept: tuple[str, ...]
) -> None:
    endpoint = ScriptedEndpoint([away(60)])
    refinement_id = await harness.submit(validators=[{**TONE, "on_fail": "warn"}], accept=accept)
    ended = await harness.play(refinement_id, models(endpoint, 0.9))
    assert (ended.status, endpoint.called) == (Status.SUCCEEDED, 1)
    assert (ended.status, ended.outcome) == (
        Status.SUCCEEDED,
        "passed" if accept else "best_effort",
    )
    assert ended.stop_reason == ("threshold_met" if accept else "incomplete")
    assert ended.result is not None
    (told,) = ended.result.caveats
    assert (told.code, told.path) == ("validator_skipped", "iterations/1/check")
    data = [it.data for it in await harness.events(refinement_id)]
    (iteration,) = [it for it in data if isinstance(it, IterationCompleted)]
    assert "was not checked" in iteration.findings[0].message
    assert iteration.findings[0].skipped


async def test_what_can_never_work_fails_at_once(harness: RefinementHarness) -> None:
    endpoint = ScriptedEndpoint([EndpointUnavailable("checks.example.com answered 404")])
    refinement_id = await harness.submit(validators=[TONE])
    ended = await harness.play(refinement_id, models(endpoint, 0.9))
    assert ended.status is Status.FAILED
    assert ended.error is not None
    assert ended.error.code == "validator_unavailable"


async def test_a_finish_ends_the_wait_with_the_best_draft(harness: RefinementHarness) -> None:
    endpoint = ScriptedEndpoint([PASSED, *[away(4)] * 9])
    refinement_id = await harness.submit(validators=[TONE])
    worker = harness.worker(models(endpoint, 0.4, 0.9))
    playing = asyncio.create_task(harness.deliver(worker, refinement_id))
    await endpoint.has_refused.wait()
    await harness.store.finish(TENANT, refinement_id)
    await worker.look(refinement_id)
    await playing
    ended = await harness.snapshot(refinement_id)
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.FINISHED_EARLY)
    assert ended.result is not None
    assert ended.result.path == "iterations/1"


@pytest.mark.parametrize("reason", [StopReason.FINISHED_EARLY, StopReason.DEADLINE])
async def test_a_check_that_hangs_is_cut_off_by_a_finish_and_a_deadline(
    harness: RefinementHarness, reason: StopReason
) -> None:
    endpoint = HangingEndpoint([PASSED])
    refinement_id = await harness.submit(validators=[TONE])
    worker = harness.worker(models(endpoint, 0.4, 0.9))
    playing = asyncio.create_task(harness.deliver(worker, refinement_id))
    await endpoint.hangs.wait()
    if reason is StopReason.DEADLINE:
        await harness.pass_deadline(refinement_id)
    else:
        await harness.store.finish(TENANT, refinement_id)
        await worker.look(refinement_id)
    await asyncio.wait_for(playing, TIMEOUT_S)
    ended = await harness.snapshot(refinement_id)
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, reason)
    assert ended.result is not None
    assert ended.result.path == "iterations/1"


async def test_a_check_that_ends_soon_after_a_deadline_counts(harness: RefinementHarness) -> None:
    endpoint = HangingEndpoint()
    refinement_id = await harness.submit(
        strategy={"kind": "self_consistency", "n": 3}, validators=[TONE]
    )
    worker = harness.worker(models(endpoint))
    playing = asyncio.create_task(harness.deliver(worker, refinement_id))
    await endpoint.hangs.wait()
    await harness.pass_deadline(refinement_id)
    endpoint.goes_on.set()
    await asyncio.wait_for(playing, TIMEOUT_S)
    ended = await harness.snapshot(refinement_id)
    assert (ended.stop_reason, ended.usage.calls) == (StopReason.DEADLINE, 3)
    assert ended.result is not None


async def test_a_check_that_cancels_itself_is_an_internal_error(
    harness: RefinementHarness,
) -> None:
    refinement_id = await harness.submit(validators=[TONE])
    ended = await harness.play(refinement_id, models(CancelledEndpoint(), 0.9))
    assert ended.error is not None
    assert (ended.status, ended.error.code) == (Status.FAILED, "internal_error")


@pytest.mark.parametrize("wait_s", [3, 60])
async def test_the_longest_wait_ends_it_with_the_best_draft(
    harness: RefinementHarness, redis_url: str, wait_s: float
) -> None:
    endpoint = ScriptedEndpoint([PASSED, *[away(wait_s)] * 9])
    refinement_id = await harness.submit(validators=[TONE], stop={"max_wait_seconds": 0.2})
    await end_overdue(harness, redis_url, refinement_id, models(endpoint, 0.4, 0.9))
    ended = await harness.snapshot(refinement_id)
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.DEADLINE)
    assert ended.result is not None
    assert (ended.result.path, ended.waiting) == ("iterations/1", None)


async def test_without_a_judged_draft_the_longest_wait_says_what_was_waited_for(
    harness: RefinementHarness, redis_url: str
) -> None:
    endpoint = ScriptedEndpoint([away(60)] * 9)
    refinement_id = await harness.submit(validators=[TONE], stop={"max_wait_seconds": 0.2})
    await end_overdue(harness, redis_url, refinement_id, models(endpoint, 0.4))
    ended = await harness.snapshot(refinement_id)
    assert ended.error is not None
    assert (ended.status, ended.error.code) == (Status.FAILED, "nothing_judged")
    assert f"{NAME}, which was overloaded" in ended.error.detail


async def test_of_an_endpoint_that_keeps_failing_only_a_call_with_a_permit_is_made() -> None:
    limiter, endpoint = EndpointLimiter(), ScriptedEndpoint([away()] * FAILURES)

    async def post(*permits: str) -> bytes:
        client = LimitedEndpoints(endpoint, limiter, TENANT, set(permits))
        return await client.post(Endpoint(url=TONE["url"]), b"{}", "key")

    for _ in range(FAILURES):
        with pytest.raises(EndpointWaits):
            await post()
    async with asyncio.timeout(TIMEOUT_S):
        while limiter.gate(NAME).reason is None:  # noqa: ASYNC110 - the limiter has no event
            await asyncio.sleep(0.01)
    with pytest.raises(EndpointWaits):
        await post()
    assert endpoint.called == FAILURES
    assert await post(NAME) == PASSED
    await limiter.limiter.aclose()


async def test_an_endpoint_that_fails_one_tenant_is_called_for_another_one() -> None:
    limiter, endpoint = EndpointLimiter(), ScriptedEndpoint([away()] * FAILURES)
    hasty = Endpoint(url=TONE["url"], timeout_s=0.001)
    acme = LimitedEndpoints(endpoint, limiter, "acme", set())
    for _ in range(FAILURES):
        with pytest.raises(EndpointWaits):
            await acme.post(hasty, b"{}", "key")
    async with asyncio.timeout(TIMEOUT_S):
        gate = limiter.gate(endpoint_wait_name(hasty.url, "acme"))
        while gate.reason is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    globex = LimitedEndpoints(endpoint, limiter, "globex", set())
    assert await globex.post(Endpoint(url=TONE["url"]), b"{}", "key") == PASSED
    await limiter.limiter.aclose()


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://Checks.example.com/tone?key=secret", NAME),
        ("http://checks.example.com:8080", f"endpoint:checks.example.com:8080#{TENANT}"),
    ],
)
def test_its_name_is_host_and_path_and_tenant(url: str, name: str) -> None:
    assert endpoint_wait_name(url, TENANT) == name


def test_names_of_long_addresses_differ() -> None:
    first, second = (endpoint_wait_name(f"https://e.com/{'a' * 900}{end}", TENANT) for end in "xy")
    assert first != second
    assert len(first) < LONGEST_NAME + 30 + len(TENANT)


async def test_a_worker_forgets_endpoints_that_nothing_waits_for() -> None:
    limiter = EndpointLimiter()
    busy, idle = limiter.gate("endpoint:busy"), limiter.gate("endpoint:idle")
    busy.begin(0.0)
    for number in range(MOST_GATES):
        limiter.gate(f"endpoint:{number}")
    assert limiter.gate("endpoint:busy") is busy
    assert limiter.gate("endpoint:idle") is not idle
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) <= MOST_GATES + 1
    await limiter.limiter.aclose()
