"""Money, finish and cancel in the middle of a plan."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from app.contract.endpoints import Endpoint
from app.contract.events import EventType, StepCompleted, StepFailed
from app.contract.judgement import Usage
from app.contract.limits import LimitsChange
from app.contract.status import Status, StopReason
from tests.engine.scripted_replies import plan, revised, step
from tests.waiting import TIMEOUT_S
from tests.workers.refinement_harness import (
    TENANT,
    RefinementHarness,
    ScriptedAnswers,
    pausing_at,
    verdict,
)
from tests.workers.scripted_models import LOOK_UP, planning
from workers.engine.prompts import Judge
from workers.engine.strategies.plan_execute import Plan, Replan
from workers.models.port import ModelCall
from workers.outbound.guarded_client import EndpointClient
from workers.validators.running import ServerResources

PLANNED: dict[str, Any] = {"strategy": {"kind": "plan_execute"}, "tools": [LOOK_UP]}
STEPS: list[str | dict[str, object]] = [step("Look it up.", "look_up", id=7), "Think."]


class SlowTool(EndpointClient):
    """A tool that answers when told to, and says when it is called."""

    def __init__(self) -> None:
        self.called = asyncio.Event()
        self.go_on = asyncio.Event()
        self.aborted = False

    async def post(self, endpoint: Endpoint, body: bytes, key: str, tenant: str = "") -> bytes:
        """Wait, and answer."""
        self.called.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.aborted = True
            raise
        return b"Refunds take 14 days."


def thinking(endpoints: Any = None) -> ScriptedAnswers:
    """A planner that always finds one more thing to do, and a critic who likes the text."""

    async def answer(key: str, call: ModelCall) -> str:
        if isinstance(call.prompt_request, Judge):
            return verdict(0.7, call)
        if isinstance(call.prompt_request, Plan):
            return plan(*STEPS)
        return (
            revised("Think on.")
            if isinstance(call.prompt_request, Replan)
            else f"Thought of {key}."
        )

    return ScriptedAnswers(
        answer, outside=ServerResources(endpoints=endpoints or planning().outside.endpoints)
    )


async def refused(harness: RefinementHarness, refinement_id: str) -> list[tuple[str, str]]:
    entries = [event.data for event in await harness.events(refinement_id)]
    return [(it.key, it.code) for it in entries if isinstance(it, StepFailed)]


async def interrupted(
    harness: RefinementHarness,
    models: ScriptedAnswers,
    begun: asyncio.Event,
    command: Callable[..., Awaitable[Any]],
    **fields: Any,
) -> str:
    """Play until something has begun, give the command, and play on to the end."""
    refinement_id = await harness.submit(**PLANNED, **fields)
    worker = harness.worker(models)
    playing = asyncio.create_task(harness.deliver(worker, refinement_id))
    await asyncio.wait_for(begun.wait(), TIMEOUT_S)
    await command(TENANT, refinement_id)
    await worker.look(refinement_id)
    await playing
    return refinement_id


def overdue(harness: RefinementHarness) -> Callable[..., Awaitable[Any]]:
    """Return the command that changes the deadline to one that has passed."""
    return partial(harness.store.change, change=LimitsChange(max_seconds=0.001))


async def test_a_budget_that_ends_in_the_plan_still_buys_a_judged_text(
    harness: RefinementHarness,
) -> None:
    models = replace(thinking(), usage=Usage(calls=1, input_tokens=900, output_tokens=100))
    limits = {"max_tokens": 30_000, "patience": 9}
    refinement_id = await harness.submit(**PLANNED, stop=limits, max_iterations=1)
    ended = await harness.play(refinement_id, models)
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.MAX_ITERATIONS)
    ((key, code),) = await refused(harness, refinement_id)
    assert key.startswith("steps/")
    assert code == "budget_exhausted"
    assert ended.usage.input_tokens + ended.usage.output_tokens <= 30_000


async def test_finish_in_a_tool_call_writes_and_judges_at_once(harness: RefinementHarness) -> None:
    slow = SlowTool()
    refinement_id = await interrupted(
        harness, thinking(endpoints=slow), slow.called, harness.store.finish
    )
    ended = await harness.snapshot(refinement_id)
    assert slow.aborted
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.FINISHED_EARLY)
    assert [it.path for it in ended.scores] == ["iterations/1"]
    assert await refused(harness, refinement_id) == [("steps/1/call", "finished_early")]


async def test_finish_in_a_step_keeps_what_was_observed(harness: RefinementHarness) -> None:
    models, begun, _ = pausing_at("steps/2/do", thinking())
    models.outside = thinking().outside
    refinement_id = await interrupted(harness, models, begun, harness.store.finish)
    assert models.aborted == ["steps/2/do"]
    events = [event.data for event in await harness.events(refinement_id)]
    done = [it.key for it in events if isinstance(it, StepCompleted)]
    assert done[-2:] == ["iterations/1/draft", "iterations/1/critique"]
    ended = await harness.snapshot(refinement_id)
    assert ended.stop_reason is StopReason.FINISHED_EARLY


async def test_finish_while_queued_writes_without_a_plan(harness: RefinementHarness) -> None:
    refinement_id = await harness.submit(**PLANNED)
    await harness.store.finish(TENANT, refinement_id)
    models = thinking()
    ended = await harness.play(refinement_id, models)
    assert ended.stop_reason is StopReason.FINISHED_EARLY
    assert [*models.calls] == ["iterations/1/draft", "iterations/1/critique"]
    assert await refused(harness, refinement_id) == [("plan", "finished_early")]


async def test_cancel_aborts_a_tool_call(harness: RefinementHarness) -> None:
    slow = SlowTool()
    refinement_id = await interrupted(
        harness, thinking(endpoints=slow), slow.called, harness.store.cancel
    )
    assert slow.aborted
    assert (await harness.snapshot(refinement_id)).status is Status.CANCELED


async def test_a_deadline_in_the_plan_ends_with_nothing_judged(harness: RefinementHarness) -> None:
    slow = SlowTool()
    refinement_id = await interrupted(
        harness, thinking(endpoints=slow), slow.called, overdue(harness)
    )
    ended = await harness.snapshot(refinement_id)
    assert slow.aborted
    assert ended.error is not None
    assert ended.error.code == "nothing_judged"


async def test_with_a_judged_draft_a_deadline_in_the_plan_ends_with_it(
    harness: RefinementHarness,
) -> None:
    slow = SlowTool()
    refinement_id = await interrupted(
        harness, thinking(endpoints=slow), slow.called, overdue(harness), draft="We refund."
    )
    ended = await harness.snapshot(refinement_id)
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.DEADLINE)
    assert ended.result is not None
    assert ended.result.path == "iterations/0"
    types = [event.type for event in await harness.events(ended.id)]
    assert types.count(EventType.STOPPING) == 1
