"""The checker finds every kind of broken history, and nothing in a good one."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.model_server import RecordedCall
from tests.faults.checker import Expected, Record, final_record, violations
from tests.faults.figures import in_hand, recovery, repeated
from tests.faults.history import (
    Answers,
    History,
    Loss,
    StoredEntry,
    StoredRefinement,
    Submission,
    Watched,
)

ID = "ref_1"
DRAFT, CRITIQUE = "iterations/1/draft", "iterations/1/critique"
BEST = {"iteration": 1, "path": "iterations/1", "score": 0.9, "sha256": "d"}

USAGE = {"calls": 1, "input_tokens": 10, "output_tokens": 2}

SUMMARY = {
    "status": "succeeded",
    "stop_reason": "max_iterations",
    "last_event": "6",
    "token": "1",
    "best": json.dumps(BEST),
    "result": '{"draft": "d"}',
    "steps": "2",
    "scores": '[{"iteration": 1, "path": "iterations/1", "score": 0.9}]',
    "usage": '{"calls": 2, "input_tokens": 20, "output_tokens": 4, "seconds": 1.5}',
}
TYPES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("refinement.queued", {}),
    ("refinement.started", {"token": 1}),
    ("step.completed", {"key": DRAFT, "usage": USAGE}),
    ("step.completed", {"key": CRITIQUE, "usage": USAGE}),
    ("iteration.completed", {"best": BEST, "iteration": 1, "path": "iterations/1", "score": 0.9}),
    ("refinement.completed", {}),
)


def entries(*kinds: tuple[str, dict[str, Any]]) -> tuple[StoredEntry, ...]:
    return tuple(StoredEntry(at, kind, 100.0 + at, it) for at, (kind, it) in enumerate(kinds, 1))


def call(key: str, began_at: float, ended_at: float | None = None, port: int = 7) -> RecordedCall:
    ended_at = began_at + 0.4 if ended_at is None else ended_at
    return RecordedCall(f"{ID}/{key}", f"body of {key}", port, began_at, ended_at)


GOOD = StoredRefinement(ID, SUMMARY, entries(*TYPES))
CALLS = (call(DRAFT, 102.1), call(CRITIQUE, 103.1))


def history(**changes: Any) -> History:
    whole: dict[str, Any] = {
        "refinements": {ID: GOOD},
        "listed": [ID],
        "submissions": [Submission(0, "iterative", [ID])],
        "calls": CALLS,
        "watched": [Watched(ID, [1, 2, 3, 4, 5, 6], has_seen_end=True)],
    }
    return History(**(whole | changes))


def stored(*kinds: tuple[str, dict[str, Any]], **summary: str) -> History:
    """A history whose journal and summary are these, with a watcher that saw all of it."""
    made = entries(*kinds)
    told = {**SUMMARY, "last_event": str(len(made)), **summary}
    numbers = [*range(1, len(made) + 1)]
    return history(
        refinements={ID: StoredRefinement(ID, told, made)},
        watched=[Watched(ID, numbers, has_seen_end=True)],
    )


def canceled(*calls: RecordedCall, losses: tuple[Loss, ...] = ()) -> History:
    ended = stored(
        *TYPES[:2],
        ("refinement.canceling", {}),
        ("refinement.canceled", {}),
        status="canceled",
        steps="0",
    )
    submissions = [Submission(0, "iterative", [ID], is_canceled=True)]
    return replace(ended, calls=calls, losses=losses, submissions=submissions)


EXPECTED: Expected = dict.fromkeys(("iterative", "effects"), final_record(GOOD))


KILLED = Loss("kill", 103.3, 103.3, frozenset({7}))
ACT = "steps/1/call"
TOLD = (Submission(0, "effects", [ID]),)


def acted(*calls: RecordedCall, ok: bool, losses: tuple[Loss, ...] = ()) -> History:
    """A history in which a tool that changes something was called, and what is said of it."""
    reply = {"kind": "tool", "ok": ok, "text": "so"}
    step = {"key": ACT, "kind": "call", "reply": reply, "usage": dict.fromkeys(USAGE, 0)}
    it = stored(*TYPES[:2], ("step.completed", step), *TYPES[2:], steps="3")
    return replace(it, calls=(*CALLS, *calls), submissions=TOLD, losses=losses)


def answered(key: str, began_at: float) -> RecordedCall:
    return replace(call(key, began_at), is_answered=True)


def without(index: int) -> History:
    left = [entry for at, entry in enumerate(GOOD.entries) if at != index]
    return history(refinements={ID: replace(GOOD, entries=tuple(left))})


BROKEN: dict[str, Callable[[], History]] = {
    "the numbers have a gap": lambda: without(3),
    "is journaled twice": lambda: stored(*TYPES[:4], TYPES[3], *TYPES[4:]),
    "the tokens do not rise": lambda: stored(
        *TYPES[:2], ("refinement.resumed", {"token": 1}), *TYPES[2:]
    ),
    "refinement.completed follows refinement.completed": lambda: stored(*TYPES, TYPES[-1]),
    "it has not ended": lambda: stored(*TYPES[:-1], status="running"),
    "it was accepted and is lost": lambda: history(refinements={ID: StoredRefinement(ID, {}, ())}),
    "the summary says last_event": lambda: stored(*TYPES, last_event="9"),
    "the summary says token": lambda: stored(*TYPES, token="3"),
    "the summary says best": lambda: stored(*TYPES, best="null"),
    "the summary says steps": lambda: stored(*TYPES, steps="1"),
    "the summary says usage": lambda: stored(*TYPES, usage='{"calls": 3}'),
    "the summary says scores": lambda: stored(*TYPES, scores="[]"),
    "the summary says failed": lambda: stored(*TYPES, status="failed"),
    "was answered with": lambda: history(submissions=[Submission(0, "iterative", [])]),
    "nobody was told of": lambda: history(listed=[ID, "ref_2"]),
    "accepted and not listed": lambda: history(listed=[]),
    "was called 2 times, 0": lambda: history(calls=(*CALLS, call(CRITIQUE, 103.6))),
    "was called 3 times, 1": lambda: history(
        calls=(*CALLS, call(CRITIQUE, 103.6), call(CRITIQUE, 103.7)),
        losses=[Loss("kill", 103.3, 103.3, frozenset({7}))],
    ),
    "asks for different things": lambda: history(
        calls=(*CALLS, replace(call(CRITIQUE, 103.6), content="another body")),
    ),
    "is said to have failed: so": lambda: acted(ok=False),
    "call is said to have failed: so": lambda: acted(
        answered(ACT, 102.1), ok=False, losses=(KILLED,)
    ),
    "was not sent, and is said to have failed": lambda: acted(ok=False, losses=(KILLED,)),
    "was sent 2 times": lambda: acted(
        call(ACT, 103.1), call(ACT, 103.2), ok=True, losses=(KILLED,)
    ),
    "was refused by its endpoint": lambda: history(refused=[replace(call(ACT, 1), key="msg_1_2")]),
    "s after canceled": lambda: canceled(call(DRAFT, 105.5)),
    "was under way after canceled": lambda: canceled(call(DRAFT, 102.1, 106.0)),
    "a watcher saw": lambda: history(watched=[Watched(ID, [1, 2, 3, 3, 4, 5, 6])]),
    "a watcher did not see the end": lambda: history(watched=[Watched(ID, [1, 2, 3, 4, 5, 6])]),
    "500 from": lambda: history(answers=Answers(unexpected=["500 from /v1/refinements"])),
    "differs in ['result']": lambda: stored(*TYPES, result='{"draft": "e"}'),
    "is poison and ended succeeded": lambda: history(submissions=[Submission(0, "poison", [ID])]),
    "differs in ['scores']": lambda: stored(*TYPES, scores="[]"),
    "differs in ['usage']": lambda: stored(*TYPES, usage='{"calls": 3}'),
    "differs in ['status', 'stop_reason', 'error']": lambda: stored(
        *TYPES[:-1],
        ("refinement.failed", {}),
        status="failed",
        stop_reason="error",
        error='{"code": "poisoned"}',
    ),
}


@pytest.mark.parametrize("wrong", BROKEN)
def test_the_checker_finds_a_broken_history(wrong: str) -> None:
    assert [it for it in violations(BROKEN[wrong](), EXPECTED) if wrong in it]


RETRIED: tuple[tuple[str, dict[str, Any]], ...] = (
    *TYPES[:3],
    ("step.failed", {"key": CRITIQUE, "usage": dict.fromkeys(USAGE, 0)}),
    ("refinement.failed", {}),
    ("refinement.retried", {}),
    ("refinement.resumed", {"token": 2}),
    *TYPES[3:],
)

GOOD_HISTORIES: dict[str, Callable[[], History]] = {
    "undisturbed": history,
    "a key again after a retry voided its failure": lambda: stored(
        *RETRIED,
        token="2",
        steps="3",
    ),
    "a call repeated after its worker was killed": lambda: history(
        calls=(*CALLS, call(CRITIQUE, 103.6)), losses=[KILLED]
    ),
    "a clock that jumped": lambda: history(
        calls=(*CALLS, call(CRITIQUE, 103.6)), losses=[Loss("jump", 0, 200, None)]
    ),
    "an unknown outcome of a call that died with its worker": lambda: acted(
        call(ACT, 103.1), ok=False, losses=(KILLED,)
    ),
    "canceled after its call ended": lambda: canceled(call(DRAFT, 102.1)),
    "canceled while a stopped worker still held the connection": lambda: canceled(
        call(DRAFT, 102.1, 120.0), losses=(Loss("stop", 102.2, 121.0, frozenset({7})),)
    ),
}


@pytest.mark.parametrize("name", GOOD_HISTORIES)
def test_the_checker_finds_nothing_in_a_good_history(name: str) -> None:
    assert violations(GOOD_HISTORIES[name](), EXPECTED) == ()


def test_a_kill_does_not_excuse_a_call_of_another_worker() -> None:
    repeat = (*CALLS, call(CRITIQUE, 103.6))
    of_another = replace(KILLED, ports=frozenset({8}))
    assert violations(history(calls=repeat, losses=[of_another]), EXPECTED)


def test_a_kill_does_not_excuse_a_call_whose_reply_was_journaled_before() -> None:
    repeat = (*CALLS, call(DRAFT, 103.4))
    assert violations(history(calls=repeat, losses=[KILLED]), EXPECTED)


def test_the_figures_count_repeats_calls_in_hand_and_the_time_to_the_next_claim() -> None:
    kinds = (*TYPES[:3], ("refinement.resumed", {"token": 2}), *TYPES[3:])
    calls = (call(DRAFT, 102.1), call(CRITIQUE, 103.1), call(CRITIQUE, 104.1))
    killed = replace(stored(*kinds, token="2"), calls=calls, losses=[KILLED])
    assert violations(killed, EXPECTED) == ()
    assert (repeated(killed), in_hand(killed)) == (1, 1)
    assert [*recovery(killed).values] == pytest.approx([0.7])


def test_a_final_record_leaves_out_what_differs_between_two_runs() -> None:
    record: Record = final_record(GOOD)
    assert record["usage"] == {"calls": 2, "input_tokens": 20, "output_tokens": 4}
    assert "last_event" not in record


def test_a_refinement_of_another_release_is_compared_with_one_of_that_release() -> None:
    of_the_later = stored(*TYPES, engine_version="2")
    assert violations(of_the_later, {"iterative@2": final_record(GOOD)}) == ()
    other = {**final_record(GOOD), "scores": []}
    assert violations(of_the_later, {**EXPECTED, "iterative@2": other})
