"""A tool that changes something: a reviewer decides before it is called, and it is called once."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from pydantic import ValidationError

from app.contract.endpoints import Endpoint
from app.contract.errors import Conflict, InvalidRequest
from app.contract.events import (
    Event,
    EventType,
    Resumed,
    Retried,
    Started,
    StepCompleted,
    StepStarted,
    ToolReply,
)
from app.contract.requests import RefinementRequest
from app.contract.reviews import Paused, PauseRequest, PlannedCall
from app.contract.snapshot import Failure, Snapshot
from app.contract.status import Status, StopReason
from app.store import WorkerStore
from tests.engine.scripted_replies import plan, revised, step
from tests.waiting import TIMEOUT_S
from tests.workers.refinement_harness import (
    TENANT,
    ActingStore,
    RefinementHarness,
    ScriptedAnswers,
    verdict,
)
from workers.engine.prompts import Judge
from workers.models.port import ModelCall
from workers.outbound.guarded_client import EndpointAway, EndpointClient
from workers.play.journal import replay_of
from workers.play.refinements import Refinements
from workers.validators.running import ServerResources

BOOK = {
    "name": "book",
    "description": "Books a table.",
    "url": "https://example.com/book",
    "effects": True,
    "parameters": {"required": ["seats"], "properties": {"seats": {"type": "integer"}}},
}
ASKING = {"kind": "plan_execute", "approval": "before_call"}
SAID = {
    "plan": plan(step("Book a table for the guests.", "book", seats=4)),
    "steps/1/replan": revised(met=True, evidence=((1, "booked for tonight"),)),
    "iterations/1/draft": "A table is booked.",
}
REFUSED = {
    "steps/1/replan": revised("Say what remains to be done."),
    "steps/2/do": "No table is booked.",
    "steps/2/replan": revised(),
    "iterations/1/draft": "No table is booked.",
}
KEY = "steps/1/approval"


@dataclass
class Bookings(EndpointClient):
    """A tool that is a function: what was booked, and under which keys."""

    made: list[tuple[str, Any]] = field(default_factory=list)
    answers: bool = True
    tenants: set[str] = field(default_factory=set)
    called: asyncio.Event = field(default_factory=asyncio.Event)

    async def post(self, endpoint: Endpoint, body: bytes, key: str, tenant: str = "") -> bytes:
        """Book; without `answers` never say so."""
        self.made.append((key.partition("/")[2], json.loads(body)["arguments"]))
        self.tenants.add(tenant)
        self.called.set()
        if not self.answers:
            await asyncio.Event().wait()
        return f"{json.loads(body)['arguments']['seats']} seats booked for tonight".encode()


def booking(bookings: Any, said: Mapping[str, str] = SAID) -> ScriptedAnswers:
    async def answer(key: str, call: ModelCall) -> str:
        return verdict(0.9, call) if isinstance(call.prompt_request, Judge) else said[key]

    return ScriptedAnswers(answer, outside=ServerResources(endpoints=bookings))


async def asked(
    harness: RefinementHarness, models: ScriptedAnswers, **fields: Any
) -> tuple[str, Snapshot]:
    """Submit, and play to the first pause."""
    refinement_id = await harness.submit(**{"strategy": ASKING, "tools": [BOOK], **fields})
    return refinement_id, await harness.play(refinement_id, models)


async def observed(harness: RefinementHarness, refinement_id: str) -> list[ToolReply]:
    events = [event.data for event in await harness.events(refinement_id)]
    replies = [it.reply for it in events if isinstance(it, StepCompleted)]
    return [it for it in replies if isinstance(it, ToolReply)]


async def test_nothing_is_called_before_a_reviewer_has_seen_tool_arguments_and_why(
    harness: RefinementHarness,
) -> None:
    bookings = Bookings()
    refinement_id, paused = await asked(harness, booking(bookings))
    assert paused.status is Status.PAUSED
    assert paused.review is not None
    why = "Book a table for the guests."
    assert paused.review.call == PlannedCall(tool="book", arguments={"seats": 4}, why=why)
    assert (paused.review.key, paused.review.path) == (KEY, "steps/1")
    assert paused.review.on_timeout == "reject"
    assert bookings.made == []
    await harness.say(refinement_id, action="approve")
    ended = await harness.play(refinement_id, booking(bookings), "second")
    assert bookings.made == [("steps/1/call", {"seats": 4})]
    assert (ended.stop_reason, ended.outcome) == (StopReason.THRESHOLD_MET, "passed")


async def test_a_reviewer_can_change_the_arguments(harness: RefinementHarness) -> None:
    bookings = Bookings()
    refinement_id, _ = await asked(harness, booking(bookings))
    await harness.say(refinement_id, action="replace", arguments={"seats": 6})
    await harness.play(refinement_id, booking(bookings), "second")
    assert bookings.made == [("steps/1/call", {"seats": 6})]


async def test_arguments_that_the_schema_rejects_are_shown_again_with_the_error(
    harness: RefinementHarness,
) -> None:
    bookings = Bookings()
    refinement_id, _ = await asked(harness, booking(bookings))
    await harness.say(refinement_id, action="replace", arguments={"seats": "six"})
    again = await harness.play(refinement_id, booking(bookings), "second")
    assert again.review is not None
    assert again.review.key == f"{KEY}/again/1"
    assert "not of type" in again.review.question or "integer" in again.review.question
    assert bookings.made == []
    await harness.say(refinement_id, action="approve")
    await harness.play(refinement_id, booking(bookings), "third")
    assert bookings.made == [("steps/1/call", {"seats": 4})]


async def test_a_refusal_changes_the_plan_and_the_text_cannot_claim_what_was_not_done(
    harness: RefinementHarness,
) -> None:
    bookings = Bookings()
    prompts: dict[str, str] = {}
    models = booking(bookings, SAID | REFUSED)
    said = models.answer

    async def listening(key: str, call: ModelCall) -> str:
        prompts[key] = call.prompt.user
        return await said(key, call)

    models.answer = listening
    refinement_id, _ = await asked(harness, models)
    await harness.say(refinement_id, action="reject", feedback="Too expensive.")
    ended = await harness.play(refinement_id, models, "second")
    assert bookings.made == []
    assert "Too expensive." in prompts["steps/1/replan"]
    assert "Too expensive." in prompts["iterations/1/draft"]
    assert ended.result is not None
    assert ended.result.draft == "No table is booked."
    assert ended.outcome == "best_effort"
    assert {it.code for it in ended.result.caveats} == {"goal_not_met", "item_dropped"}


async def test_a_call_that_died_with_its_worker_is_not_made_again_and_its_outcome_is_unknown(
    harness: RefinementHarness,
) -> None:
    silent, bookings = Bookings(answers=False), Bookings()
    refinement_id, _ = await asked(harness, booking(silent))
    await harness.say(refinement_id, action="approve")
    await dying(harness, refinement_id, silent)
    await harness.play(refinement_id, booking(bookings, SAID | REFUSED), "third")
    assert (len(silent.made), bookings.made) == (1, [])
    (reply,) = await observed(harness, refinement_id)
    assert reply.ok is False
    assert "is unknown, and it is not made again" in reply.text


async def test_an_idempotent_tool_is_called_again_with_the_same_key(
    harness: RefinementHarness,
) -> None:
    silent, bookings = Bookings(answers=False), Bookings()
    tools = [BOOK | {"idempotent": True}]
    refinement_id, _ = await asked(harness, booking(silent), tools=tools)
    await harness.say(refinement_id, action="approve")
    await dying(harness, refinement_id, silent)
    await harness.play(refinement_id, booking(bookings), "third")
    assert silent.made == bookings.made == [("steps/1/call", {"seats": 4})]


def retried(code: str) -> Retried:
    reason = Failure(code=code, detail="so")
    return Retried(reason=reason, limits=RefinementRequest(task="Explain.").limits(), voided=())


async def dying(harness: RefinementHarness, refinement_id: str, silent: Bookings) -> None:
    """Play until the tool is called, and kill the worker then."""
    worker = harness.worker(booking(silent), "second")
    playing = asyncio.create_task(harness.deliver(worker, refinement_id))
    await asyncio.wait_for(silent.called.wait(), TIMEOUT_S)
    playing.cancel()
    await asyncio.wait([playing])


class AwaitingRedis(Bookings):
    """A tool whose calls cannot be signed now."""

    async def ready(self, endpoint: Endpoint, tenant: str) -> None:
        """Wait, for ever."""
        self.called.set()
        await asyncio.Event().wait()


async def test_a_call_that_waited_for_redis_when_its_worker_died_was_not_sent_and_is_made(
    harness: RefinementHarness,
) -> None:
    away, bookings = AwaitingRedis(), Bookings()
    refinement_id, _ = await asked(harness, booking(away))
    await harness.say(refinement_id, action="approve")
    await dying(harness, refinement_id, away)
    await harness.play(refinement_id, booking(bookings), "third")
    assert away.made == []
    assert [it.ok for it in await observed(harness, refinement_id)] == [True]


async def test_a_worker_that_leaves_begins_no_call(harness: RefinementHarness) -> None:
    leaving, bookings = Leaving(), Bookings()
    refinement_id, _ = await asked(harness, booking(leaving))
    await harness.say(refinement_id, action="approve")
    leaving.worker = harness.worker(booking(leaving), "second")
    await harness.deliver(leaving.worker, refinement_id)
    await harness.play(refinement_id, booking(bookings), "third")
    assert leaving.made == []
    assert [it.ok for it in await observed(harness, refinement_id)] == [True]


async def test_in_quarantine_a_plan_with_a_call_records_a_step_with_every_claim(
    harness: RefinementHarness,
) -> None:
    refinement_id = await harness.submit(strategy={"kind": "plan_execute"}, tools=[BOOK])
    models = booking(bookings := Bookings())
    for number in range(10):
        worker = Refinements(
            harness.worker_store, models, f"child-{number}", models.outside, clears=True
        )
        await harness.deliver(worker, refinement_id)
    assert (await harness.snapshot(refinement_id)).status is Status.SUCCEEDED
    assert bookings.made == [(CALL, {"seats": 4})]


class Leaving(Bookings):
    """A tool whose worker is told to leave just before the call."""

    worker: Refinements

    async def ready(self, endpoint: Endpoint, tenant: str) -> None:
        """Tell it."""
        self.worker.leave()


async def test_tools_are_called_in_the_name_of_the_tenant(harness: RefinementHarness) -> None:
    bookings = Bookings()
    refinement_id = await harness.submit(
        tenant="acme", strategy={"kind": "plan_execute"}, tools=[BOOK]
    )
    await harness.deliver(harness.worker(booking(bookings)), refinement_id)
    assert bookings.tenants == {"acme"}


CALL = "steps/1/call"
CLAIMED, BEGUN = Started(token=1), StepStarted(next=(CALL,))


@pytest.mark.parametrize(
    ("journal", "may_be_sent"),
    [
        ((CLAIMED, BEGUN), True),
        ((CLAIMED, BEGUN, retried("nothing_judged")), False),
        ((CLAIMED, BEGUN, retried("poisoned")), True),
        ((CLAIMED, BEGUN, Resumed(token=2, replayed=0), retried("nothing_judged")), True),
    ],
    ids=["died", "ended by its worker", "ended for its deaths", "ended by another worker"],
)
def test_a_call_that_had_begun_was_not_sent_if_its_worker_ended_the_refinement(
    journal: Sequence[Any], may_be_sent: bool
) -> None:
    events = [
        Event(event=number, type=EventType.STARTED, at=datetime.now(UTC), data=data)
        for number, data in enumerate(journal, 1)
    ]
    assert (CALL in replay_of(events).maybe_sent) is may_be_sent


@pytest.mark.parametrize("at", range(1, 6))
async def test_a_pause_requested_at_any_append_leaves_no_outcome_unknown(
    harness: RefinementHarness, at: int
) -> None:
    async def pause(refinement_id: str) -> None:
        await harness.store.pause(TENANT, refinement_id, PauseRequest())

    bookings, store = Bookings(), ActingStore(harness, at, pause)
    models = booking(bookings)
    refinement_id = await harness.submit(strategy={"kind": "plan_execute"}, tools=[BOOK])
    await harness.deliver(harness.worker(models, store=cast("WorkerStore", store)), refinement_id)
    now = await harness.snapshot(refinement_id)
    assert now.review is not None
    await harness.say(refinement_id, action="resume")
    await harness.play(refinement_id, models, "second")
    assert bookings.made == [("steps/1/call", {"seats": 4})]
    assert [it.ok for it in await observed(harness, refinement_id)] == [True]


async def test_a_call_under_way_is_not_aborted_by_a_finish(harness: RefinementHarness) -> None:
    go_on = asyncio.Event()

    class Slow(Bookings):
        async def post(self, endpoint: Endpoint, body: bytes, key: str, tenant: str = "") -> bytes:
            self.called.set()
            await go_on.wait()
            return await super().post(endpoint, body, key)

    slow = Slow()
    models = booking(slow)
    refinement_id = await harness.submit(strategy={"kind": "plan_execute"}, tools=[BOOK])
    worker = harness.worker(models)
    playing = asyncio.create_task(harness.deliver(worker, refinement_id))
    await asyncio.wait_for(slow.called.wait(), TIMEOUT_S)
    await harness.store.finish(TENANT, refinement_id)
    await worker.look(refinement_id)
    go_on.set()
    await playing
    assert [it.ok for it in await observed(harness, refinement_id)] == [True]
    assert (await harness.snapshot(refinement_id)).stop_reason is StopReason.INCOMPLETE


async def test_finish_while_a_reviewer_is_asked_writes_without_the_call(
    harness: RefinementHarness,
) -> None:
    bookings = Bookings()
    refinement_id, _ = await asked(harness, booking(bookings))
    await harness.store.finish(TENANT, refinement_id)
    is_killed, dies_at = True, 0
    while is_killed:  # each time one append further
        dies_at += 1
        is_killed = await harness.play_and_die(
            refinement_id, booking(bookings), dies_at, after=True
        )
    ended = await harness.snapshot(refinement_id)
    assert (ended.status, ended.stop_reason) == (Status.SUCCEEDED, StopReason.INCOMPLETE)
    assert bookings.made == []


@pytest.mark.parametrize(
    "word",
    [
        {"action": "revise", "feedback": "More seats."},
        {"action": "rate", "score": 0.5},
        {"action": "replace", "draft": "No."},
        {"action": "approve", "score": 1},
    ],
)
async def test_what_suits_a_draft_is_refused_for_a_call(
    harness: RefinementHarness, word: dict[str, Any]
) -> None:
    refinement_id, _ = await asked(harness, booking(Bookings()))
    with pytest.raises(InvalidRequest, match="a call of a tool is under review"):
        await harness.say(refinement_id, **word)
    with pytest.raises(Conflict):
        await harness.say(refinement_id, action="approve", path="iterations/1/review")


async def test_arguments_are_refused_for_a_draft(harness: RefinementHarness) -> None:
    review = {"when": "before_completion"}
    strategy = {"kind": "plan_execute"}
    refinement_id, paused = await asked(
        harness, booking(Bookings()), review=review, strategy=strategy
    )
    assert paused.review is not None
    assert paused.review.call is None
    with pytest.raises(InvalidRequest, match="a draft is under review"):
        await harness.say(refinement_id, action="replace", arguments={})


async def test_a_call_without_an_answer_is_said_to_have_an_unknown_outcome(
    harness: RefinementHarness,
) -> None:
    class Unreachable(Bookings):
        async def post(self, endpoint: Endpoint, body: bytes, key: str, tenant: str = "") -> bytes:
            raise EndpointAway("timeout after 10 s", "unreachable")

    models = booking(Unreachable(), SAID | REFUSED)
    refinement_id = await harness.submit(strategy={"kind": "plan_execute"}, tools=[BOOK])
    await harness.play(refinement_id, models)
    (reply,) = await observed(harness, refinement_id)
    assert reply.text.startswith("timeout after 10 s: whether the call took effect is unknown")


async def test_the_pause_is_in_the_journal_with_the_call(harness: RefinementHarness) -> None:
    refinement_id, _ = await asked(harness, booking(Bookings()))
    events = [event.data for event in await harness.events(refinement_id)]
    (paused,) = [it for it in events if isinstance(it, Paused)]
    assert (paused.when, paused.iteration, paused.sha256) == ("before_call", None, None)


LOOKING_UP = {key: value for key, value in BOOK.items() if key != "effects"}
WITHIN: Callable[[Any], Any] = lambda body: {  # noqa: E731
    "kind": "nested",
    "parts": [{"name": "one", "instructions": "All."}],
    "body": body,
}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"strategy": ASKING, "tools": [LOOKING_UP]}, "there is nothing to approve"),
        ({"strategy": WITHIN(ASKING), "tools": [BOOK]}, "not by one within it"),
        ({"strategy": {"kind": "plan_execute", "approval": "never"}, "tools": [BOOK]}, "approval"),
    ],
)
def test_an_approval_that_cannot_be_asked_for_is_refused(fields: Any, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        RefinementRequest.model_validate({"task": "Book a table.", **fields})
