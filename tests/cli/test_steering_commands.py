"""`hone finish | pause | review | retry | continue`, and what `hone watch` says of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.contract.events import Event, EventType, Retried
from app.contract.ratings import Rating
from app.contract.reviews import PendingReview
from app.contract.snapshot import Failure, Iteration, IterationList
from app.contract.status import Status, StopReason
from tests.cli.conftest import Run
from tests.cli.scripted_refinement import (
    AT,
    DIFF,
    EVENTS,
    ID,
    LIMITS,
    PAUSED,
    ending,
    judged,
    snapshot,
    stream,
)
from tests.cli.scripted_server import CannedResponse, ScriptedApi

ASKED = PendingReview(
    key="iterations/1/review",
    path="iterations/1",
    question="Is this draft good enough?",
    on_timeout="approve",
    asked_at=AT,
    deadline=AT,
)


def at(path: str) -> str:
    return f"/v1/refinements/{ID}{path}"


def answered(status: Status) -> list[CannedResponse]:
    return [CannedResponse(snapshot(status, None, None).model_dump_json(), 202)]


def test_finish_prints_the_status_after_it(server: ScriptedApi, hone: Run) -> None:
    server.answers[f"POST {at('/finish')}"] = answered(Status.RUNNING)
    assert hone("finish", ID).stdout == "running\n"


def test_pause_sends_the_limits_that_were_given_and_prints_the_status(
    server: ScriptedApi, hone: Run
) -> None:
    server.answers[f"POST {at('/pause')}"] = answered(Status.RUNNING)
    assert hone("pause", ID, "--timeout", "60", "--on-timeout", "resume").stdout == "running\n"
    assert json.loads(server.asked[0].body) == {"timeout_s": 60, "on_timeout": "resume"}


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        (("approve",), {"action": "approve"}),
        (("revise", "--feedback", "Shorter."), {"action": "revise", "feedback": "Shorter."}),
        (("rate", "--score", "0.5"), {"action": "rate", "score": 0.5}),
        (("resume",), {"action": "resume"}),
        (("reject", "--key", "a/review"), {"action": "reject", "path": "a/review"}),
        (("replace", "--draft", "-"), {"action": "replace", "draft": "Mine.\n"}),
    ],
)
def test_review_sends_what_was_said_and_nothing_else(
    server: ScriptedApi, hone: Run, arguments: tuple[str, ...], body: dict[str, object]
) -> None:
    server.answers[f"POST {at('/reviews')}"] = answered(Status.QUEUED)
    assert hone("review", ID, *arguments, stdin="Mine.\n").stdout == "queued\n"
    assert [json.loads(asked.body) for asked in server.asked] == [body]


def test_rate_sends_what_was_said_and_prints_the_event(server: ScriptedApi, hone: Run) -> None:
    said: dict[str, Any] = {"path": "iterations/1", "score": 0.5, "by": "Ann"}
    rating = Rating(**said, sha256="0" * 64, event=7, at=AT)
    server.answers[f"POST {at('/ratings')}"] = [CannedResponse(rating.model_dump_json(), 201)]
    ran = hone("rate", ID, "iterations/1", "--score", "0.5", "--by", "Ann")
    assert ran.stdout == "rated: event 7\n"
    assert [json.loads(asked.body) for asked in server.asked] == [said]


def test_review_without_an_action_shows_the_draft_that_is_asked_about(
    server: ScriptedApi, hone: Run
) -> None:
    waiting = snapshot(Status.PAUSED, None, None).model_copy(update={"review": ASKED})
    shared = Iteration.model_fields.keys() - {"draft", "usage"}
    first, second = (
        Iteration(
            draft=f"Draft {number}.",
            usage=waiting.usage,
            **judged(number, 0.5, passed=False).model_dump(include=set(shared)),
        )
        for number in (0, 1)
    )
    server.answers[f"GET {at('')}"] = [CannedResponse(waiting.model_dump_json())]
    listed = IterationList(data=(first, second)).model_dump_json()
    server.answers[f"GET {at('/iterations')}"] = [CannedResponse(listed)]
    shown = hone("review", ID).stdout
    assert shown.split("\n") == [
        "Is this draft good enough?",
        "Until 2026-05-04 06:30 UTC, then: approve",
        "",
        "Draft 1.",
        "",
    ]


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ({"call": {"tool": "book", "arguments": {"seats": 4}, "why": "So."}}, '"seats": 4'),
        ({"path": None, "when": "requested"}, "Is this draft good enough?"),
    ],
)
def test_review_without_an_action_shows_a_call_or_a_pause_without_a_draft(
    server: ScriptedApi, hone: Run, asked: dict[str, Any], shown: str
) -> None:
    review = PendingReview.model_validate(ASKED.model_dump() | asked)
    waiting = snapshot(Status.PAUSED, None, None).model_copy(update={"review": review})
    server.answers[f"GET {at('')}"] = [CannedResponse(waiting.model_dump_json())]
    assert shown in hone("review", ID).stdout


def test_review_sends_the_arguments_of_a_call(server: ScriptedApi, hone: Run) -> None:
    server.answers[f"POST {at('/reviews')}"] = answered(Status.QUEUED)
    hone("review", ID, "replace", "--arguments", "-", stdin='{"seats": 6}')
    body = {"action": "replace", "arguments": {"seats": 6}}
    assert [json.loads(asked.body) for asked in server.asked] == [body]


def test_review_without_an_action_of_what_is_not_paused_says_so(
    server: ScriptedApi, hone: Run
) -> None:
    server.answers[f"GET {at('')}"] = [CannedResponse(snapshot().model_dump_json())]
    done = hone("review", ID)
    assert (done.exit_code, "not waiting" in done.stderr) == (1, True)


def test_a_word_without_an_action_is_wrong_usage(server: ScriptedApi, hone: Run) -> None:
    assert hone("review", ID, "--feedback", "Shorter.").exit_code == 2
    assert server.asked == []


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        ((), {}),
        (("--max-cost-usd", "0.5", "--max-tokens", "9"), {"max_cost_usd": 0.5, "max_tokens": 9}),
        (("--max-seconds", "60", "--threshold", "0.7"), {"max_seconds": 60, "threshold": 0.7}),
    ],
)
def test_retry_sends_the_limits_that_were_given(
    server: ScriptedApi, hone: Run, arguments: tuple[str, ...], body: dict[str, object]
) -> None:
    server.answers[f"POST {at('/retry')}"] = answered(Status.QUEUED)
    assert hone("retry", ID, *arguments, "--no-wait").stdout == f"{ID}\n"
    assert [json.loads(asked.body) for asked in server.asked] == [body]


REASON = Failure(code="unreadable_critique", detail="it is empty")
BROKEN = snapshot(Status.FAILED, StopReason.ERROR, None).model_copy(update={"error": REASON})
FAILURE = ending(EventType.FAILED, BROKEN)
RETRIED = Event(
    event=FAILURE.event + 1,
    type=EventType.RETRIED,
    at=AT,
    data=Retried(reason=REASON, limits=LIMITS, voided=()),
)
LAST = Event(event=FAILURE.event + 2, type=EventType.COMPLETED, at=AT, data=snapshot())


def test_watching_goes_on_past_a_failure_that_was_retried(server: ScriptedApi, hone: Run) -> None:
    server.answers[f"GET {at('/diff?from=0&to=1')}"] = [CannedResponse(DIFF.model_dump_json())]
    server.answers[f"GET {at('/events')}"] = [
        CannedResponse(stream(*EVENTS, FAILURE, RETRIED, LAST), media_type="text/event-stream")
    ]
    done = hone("watch", ID)
    assert done.exit_code == 0, done.stderr
    assert "failed: error" in done.stderr
    assert "retried at event 9 after unreadable_critique: it is empty" in done.stderr
    assert "passed: threshold_met" in done.stderr
    assert "It failed" not in done.stderr


def test_watching_ends_when_nothing_follows_a_failure(server: ScriptedApi, hone: Run) -> None:
    server.answers[f"GET {at('/events')}"] = [
        CannedResponse(stream(*EVENTS, FAILURE), media_type="text/event-stream")
    ]
    done = hone("watch", ID)
    assert (done.exit_code, len(server.asked)) == (3, 1)
    assert "It failed: unreadable_critique: it is empty" in done.stderr


def test_continue_prints_the_id_of_the_new_refinement(
    server: ScriptedApi, hone: Run, tmp_path: Path
) -> None:
    server.answers[f"POST {at('/continue')}"] = answered(Status.QUEUED)
    different = tmp_path / "different.json"
    different.write_text('{"metadata": {"ticket": "2"}, "threshold": 0.1}')
    options = ("--max-iterations", "9", "--threshold", "0.9", "--request", str(different))
    assert hone("continue", ID, "--no-wait", *options).stdout == f"{ID}\n"
    assert json.loads(server.asked[0].body) == {
        "metadata": {"ticket": "2"},
        "threshold": 0.9,
        "max_iterations": 9,
    }


def test_watching_says_that_it_is_paused_and_what_to_do(server: ScriptedApi, hone: Run) -> None:
    told = stream(*EVENTS, PAUSED, ending().model_copy(update={"event": PAUSED.event + 1}))
    server.answers[f"GET {at('/events')}"] = [CannedResponse(told, media_type="text/event-stream")]
    server.answers[f"GET {at('/diff?from=0&to=1')}"] = [CannedResponse("{}", 404)]
    lines = hone("watch", ID).stderr
    assert "paused at iterations/1/review: Is this draft good enough?\n" in lines
    assert "until 2026-05-04 07:30 UTC, then: approve\n" in lines
    assert f"hone review {ID} approve" in lines
