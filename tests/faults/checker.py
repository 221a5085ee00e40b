"""Checks the whole history of a run against what is promised. Pure: it reads the history only."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.model_server import RecordedCall
from tests.faults.history import (
    CLAIMS,
    ENDS,
    POISON,
    RETRIED,
    STEPS,
    History,
    Loss,
    StoredEntry,
    StoredRefinement,
    Watched,
)

SEEN_LATE_S = 1.0
"""How late a busy model server may see that a call began, or that its client has gone."""

TOLD = {"last_event", "token", "steps", "usage", "best", "scores"}
COUNTED = ("calls", "input_tokens", "output_tokens")
SCORE = ("iteration", "path", "score")

Record = Mapping[str, Any]
Expected = Mapping[str, Record]
"""The final record of each shape of request and release, from a run without faults."""


def final_record(it: StoredRefinement) -> Record:
    """Return what a client is told at the end, without times, ids and seconds.

    And without the estimate, which depends on the refinements that have ended before.
    """
    result = json.loads(it.summary.get("result", "null"))
    if result is not None:
        result.pop("estimate", None)
    usage = json.loads(it.summary.get("usage", "{}"))
    return {
        "status": it.status,
        "stop_reason": it.summary.get("stop_reason"),
        "error": it.summary.get("error"),
        "result": result,
        "scores": json.loads(it.summary.get("scores", "[]")),
        "usage": {name: value for name, value in usage.items() if name != "seconds"},
    }


def release_of(shape: str, it: StoredRefinement) -> str:
    """Return the key of what is expected: the shape, and the engine's version if it has one."""
    version = it.summary.get("engine_version")
    return f"{shape}@{version}" if version else shape


def violations(history: History, expected: Expected) -> tuple[str, ...]:
    """Return every broken promise, in words."""
    found = [
        f"{it.id}: {wrong}"
        for it in history.refinements.values()
        for wrong in journal_violations(it)
    ]
    found += (wrong for check in OF_THE_WHOLE for wrong in check(history))
    return (*found, *_differ_from_undisturbed(history, expected))


def journal_violations(it: StoredRefinement) -> Iterator[str]:
    """Return every promise that one journal and its summary break."""
    for check in OF_A_JOURNAL:
        yield from check(it)


def _has_gaps(it: StoredRefinement) -> Iterator[str]:
    numbers = [entry.number for entry in it.entries]
    if numbers != [*range(1, len(numbers) + 1)]:
        yield f"the numbers have a gap: {numbers}"


def _has_two_winners(it: StoredRefinement) -> Iterator[str]:
    """A key is journaled once, and again only after `refinement.retried` voided its failure."""
    done: dict[str, str] = {}
    for entry in it.entries:
        if entry.type == RETRIED:
            done = {key: kind for key, kind in done.items() if kind != "step.failed"}
        elif entry.type in STEPS:
            if entry.data["key"] in done:
                yield f"{entry.data['key']} is journaled twice"
            done[entry.data["key"]] = entry.type


def _tokens_fall(it: StoredRefinement) -> Iterator[str]:
    tokens = [entry.data["token"] for entry in it.entries if entry.type in CLAIMS]
    if tokens != sorted(set(tokens)):
        yield f"the tokens do not rise: {tokens}"


def _goes_on_after_its_end(it: StoredRefinement) -> Iterator[str]:
    for before, after in zip(it.entries, it.entries[1:], strict=False):
        if before.type in ENDS and after.type != RETRIED:
            yield f"{after.type} follows {before.type}"


def _has_not_ended(it: StoredRefinement) -> Iterator[str]:
    if not it.summary:
        yield "it was accepted and is lost"
    elif not it.entries or it.entries[-1].type not in ENDS:
        last = it.entries[-1].type if it.entries else "nothing"
        yield f"it has not ended: {it.status} after {last}"


def _disagrees_with_its_summary(it: StoredRefinement) -> Iterator[str]:
    if not it.summary or not it.entries:
        return
    summed = {name: json.loads(value) for name, value in it.summary.items() if name in TOLD}
    if "usage" in summed:
        summed["usage"] = {name: summed["usage"].get(name) for name in COUNTED}
    for name, told in _told(it.entries).items():
        if summed.get(name) != told:
            yield f"the summary says {name} {it.summary.get(name)}, the journal {told}"
    last = it.entries[-1].type.removeprefix("refinement.").replace("completed", "succeeded")
    if it.entries[-1].type in ENDS and last != it.status:
        yield f"the summary says {it.status}, the journal {last}"


def _told(entries: tuple[StoredEntry, ...]) -> dict[str, Any]:
    """Return the fields of the summary that follow from the journal."""
    claims = [entry.data["token"] for entry in entries if entry.type in CLAIMS]
    judged = [entry.data for entry in entries if entry.type == "iteration.completed"]
    steps = [entry.data for entry in entries if entry.type in STEPS]
    told: dict[str, Any] = {
        "last_event": entries[-1].number,
        "token": claims[-1] if claims else 0,
        "steps": len(steps),
    }
    if steps:
        told["usage"] = {name: sum(step["usage"][name] for step in steps) for name in COUNTED}
    if judged:
        told["best"] = judged[-1]["best"]
        told["scores"] = [{name: it[name] for name in SCORE} for it in judged]
    return told


OF_A_JOURNAL: tuple[Callable[[StoredRefinement], Iterator[str]], ...] = (
    _has_gaps,
    _has_two_winners,
    _tokens_fall,
    _goes_on_after_its_end,
    _has_not_ended,
    _disagrees_with_its_summary,
)


def _accepted_twice(history: History) -> Iterator[str]:
    """One refinement per key: every answer names the same, and nothing else was made."""
    accepted = Counter(it for submission in history.submissions for it in set(submission.ids))
    for submission in history.submissions:
        if len(set(submission.ids)) != 1:
            yield f"submission {submission.number} was answered with {submission.ids}"
    if unknown := sorted(set(history.listed) - set(accepted)):
        yield f"nobody was told of {unknown}"
    if unlisted := sorted(set(accepted) - set(history.listed)):
        yield f"accepted and not listed: {unlisted}"


def _repeats_without_a_loss(history: History) -> Iterator[str]:
    """A call is repeated only for a worker that was lost while the call was in its hands."""
    by_key: dict[str, list[RecordedCall]] = {}
    for call in history.calls:
        by_key.setdefault(call.key, []).append(call)
    for key, calls in by_key.items():
        excused = sum(any(True for _ in _excuses(history, call)) for call in calls)
        if len(calls) - 1 > excused:
            yield f"{key} was called {len(calls)} times, {excused} of them lost with a worker"
        if len({call.content for call in calls}) > 1:
            yield f"{key} asks for different things"


def _excuses(history: History, call: RecordedCall) -> Iterator[Loss]:
    it = history.refinements.get(call.refinement_id)
    journaled_at = it.journaled_at(call) if it else None
    return (loss for loss in history.losses if loss.excuses(call, journaled_at))


def _calls_of_tools(history: History) -> Iterator[str]:
    """What is said of a call is true: of a change that was sent once, or of none that was sent."""
    seen = Counter(it.key for it in (*history.calls, *history.refused))
    answered = {it.key for it in history.calls if it.is_answered}
    shapes = {it.ids[0]: it.shape for it in history.submissions if it.ids}
    for it in history.refinements.values():
        for key, reply in replies_of_tools(it):
            if shapes[it.id] == "effects" and seen[key] > 1:
                yield f"{key} was sent {seen[key]} times"
            if not reply["ok"] and (key in answered or not history.losses):
                yield f"{key} is said to have failed: {reply['text']}"
            elif not reply["ok"] and not seen[key]:
                yield f"{key} was not sent, and is said to have failed: {reply['text']}"


def replies_of_tools(it: StoredRefinement) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return what is journaled of the calls of tools, each with its key."""
    for entry in it.entries:
        if entry.type == "step.completed" and entry.data.get("kind") == "call":
            yield f"{it.id}/{entry.data['key']}", entry.data["reply"]


def _wrong_signatures(history: History) -> Iterator[str]:
    for call in history.refused:
        if call.key.startswith("msg_") or call.key.endswith("/call"):
            yield f"{call.key} was refused by its endpoint"


def _calls_after_canceled(history: History) -> Iterator[str]:
    """Once `canceled` is journaled no call starts, and none is still under way."""
    for call in history.calls:
        it = history.refinements.get(call.refinement_id)
        if it is None or not it.entries or it.entries[-1].type != "refinement.canceled":
            continue
        canceled_at = it.entries[-1].at
        if call.began_at > canceled_at + SEEN_LATE_S:
            yield f"{call.key} began {call.began_at - canceled_at:.2f} s after canceled"
        has_ended = call.ended_at is not None and call.ended_at <= canceled_at + SEEN_LATE_S
        if not has_ended and not any(True for _ in _excuses(history, call)):
            yield f"{call.key} was under way after canceled"


def _watchers_missed_events(history: History) -> Iterator[str]:
    for watched in history.watched:
        yield from _missed(history, watched)


def _missed(history: History, watched: Watched) -> Iterator[str]:
    last = len(history.refinements[watched.id].entries)
    if watched.numbers != [*range(1, last + 1)]:
        yield f"{watched.id}: a watcher saw {watched.numbers} of {last}"
    elif not watched.has_seen_end:
        yield f"{watched.id}: a watcher did not see the end"


def _unexpected_answers(history: History) -> Iterator[str]:
    yield from history.answers.unexpected


OF_THE_WHOLE: tuple[Callable[[History], Iterator[str]], ...] = (
    _accepted_twice,
    _repeats_without_a_loss,
    _calls_of_tools,
    _wrong_signatures,
    _calls_after_canceled,
    _watchers_missed_events,
    _unexpected_answers,
)


def _differ_from_undisturbed(history: History, expected: Expected) -> Iterator[str]:
    for submission in history.submissions:
        for refinement_id in set(submission.ids):
            it = history.refinements[refinement_id]
            has_ended = it.entries and it.entries[-1].type in ENDS
            if not has_ended or (submission.is_canceled and it.status == "canceled"):
                continue
            if not all(reply["ok"] for _, reply in replies_of_tools(it)):
                continue  # with the outcome of a call unknown it ends otherwise
            if submission.shape == POISON:
                if '"poisoned"' not in it.summary.get("error", ""):
                    yield f"{it.id} is poison and ended {it.status}: {it.summary.get('error')}"
                continue
            record, wanted = final_record(it), expected[release_of(submission.shape, it)]
            if history.refused:  # refused calls are counted, and how many there are is chance
                record, wanted = _without_calls(record), _without_calls(wanted)
            if wrong := [name for name in wanted if record[name] != wanted[name]]:
                shown = {name: record[name] for name in wrong if name != "result"}
                yield f"{it.id} ({submission.shape}) differs in {wrong}: {shown}"


def _without_calls(record: Record) -> Record:
    usage = {name: value for name, value in record["usage"].items() if name != "calls"}
    return {**record, "usage": usage}
