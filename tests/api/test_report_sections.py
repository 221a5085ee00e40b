"""Sections of a report, from journals that are written down here."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime

from app.contract.drafts import sha256_of
from app.contract.events import (
    Event,
    EventData,
    EventType,
    Queued,
    Resumed,
    Started,
    StepCompleted,
    StepFailed,
    TextReply,
    ToolReply,
    Tried,
)
from app.contract.judgement import Finding, FixMade, Issue, IssueState, TextChange, Usage
from app.contract.limits import Limits
from app.contract.requests import RefinementRequest
from app.contract.reviews import Paused, Reviewed
from app.contract.snapshot import Failure, Iteration, Snapshot
from app.contract.status import RefinementOutcome, Status, StopReason
from app.service.report import Story, markdown_of
from app.store.redis.codec import links

AT = datetime(2026, 5, 4, 6, 30, tzinfo=UTC)
LIMITS = Limits(threshold=0.85, max_iterations=3)
UNKNOWN = Usage(calls=1, input_tokens=1_000, output_tokens=20, cost_usd=None, seconds=1.25)
TYPES = {
    Queued: EventType.QUEUED,
    Started: EventType.STARTED,
    Resumed: EventType.RESUMED,
    StepCompleted: EventType.STEP_COMPLETED,
    StepFailed: EventType.STEP_FAILED,
    Paused: EventType.PAUSED,
    Reviewed: EventType.REVIEWED,
}
QUEUED = Queued(strategy="iterative", models={}, limits=LIMITS, request_sha256="0")
ASKED = Paused(
    key="reviews/1",
    path="iterations/1",
    iteration=1,
    score=0.5,
    sha256="0",
    when="before_completion",
    timeout_s=60,
    on_timeout="approve",
    question="Good enough?",
)


def snapshot(**fields: object) -> Snapshot:
    """Return an ended refinement in which nothing was judged."""
    left_out = (
        "outcome",
        "reason",
        "stop_reason",
        "iteration",
        "best",
        "result",
        "error",
        "parent",
    )
    moments = ("created_at", "started_at", "ended_at", "expires_at")
    known: dict[str, object] = {
        **dict.fromkeys(left_out),
        **dict.fromkeys(moments, AT),
        "id": "ref_1",
        "status": Status.SUCCEEDED,
        "strategy": "iterative",
        "phase": (),
        "max_iterations": 3,
        "threshold": 0.85,
        "scores": (),
        "usage": UNKNOWN,
        "last_event": 9,
        "metadata": {},
        "links": links("ref_1"),
    }
    return Snapshot.model_validate(known | fields)


def told(
    *happened: EventData, of: Snapshot | None = None, judged: tuple[Iteration, ...] = ()
) -> Story:
    """Return the story of these events, after it was queued."""
    events = tuple(
        Event(event=number, type=TYPES[type(data)], at=AT, data=data)
        for number, data in enumerate((QUEUED, *happened), 1)
    )
    return Story(of or snapshot(), RefinementRequest(draft="A draft."), events, judged)


COURSE = ("## Reviews", "## Plans and tools", "## Failed steps", "## Other events")


def sections(story: Story, *headings: str) -> str:
    """Return the sections of a report that begin so; without headings, what stands before all."""
    beginning, *others = re.split(r"\n\n(?=## )", markdown_of(story).removesuffix("\n"))
    if not headings:
        return beginning.partition("\n\n")[2]
    return "\n\n".join(found for found in others if found.startswith(headings))


def course(story: Story) -> str:
    """Return the sections about reviews, plans, failures and other events."""
    return sections(story, *COURSE)


def asked(key: str, text: str, **more: object) -> StepCompleted:
    fields = {"key": key, "kind": "ask", "reply": TextReply(text=text), "usage": UNKNOWN}
    return StepCompleted.model_validate(
        fields | {"about": "0" * 16, "seconds": 1, "next": ()} | more
    )


def test_a_failure_is_told_in_words_with_its_code() -> None:
    failure = Failure(code="unreadable_critique", detail="no <b>score</b>")
    ending = {"status": Status.FAILED, "outcome": RefinementOutcome.FAILED, "error": failure}
    failed = snapshot(**ending, reason="No score.")
    why, code = sections(told(of=failed)).split("\n\n")[:2]
    assert why == "**Failed.** No score."
    assert code == (
        "A critic's verdict could not be parsed, even after retries; no verdict was invented"
        " instead. (`unreadable_critique`: no \\<b\\>score\\</b\\>)"
    )


def test_drafts_that_a_reviewer_asked_for_beyond_the_limit_are_counted_apart() -> None:
    first = {"iteration": 0, "path": "iterations/0", "draft": "x", "sha256": "0", "parent": None}
    first |= {"score": None, "passed": False, "usage": UNKNOWN}
    lists = dict.fromkeys(
        ("scores", "findings", "strengths", "weaknesses", "suggestions", "asked"), ()
    )
    paths = "iterations/0", "iterations/3", "iterations/4", "stages/a/iterations/4"
    drafts = tuple(
        Iteration.model_validate({**first, **lists, "iteration": int(path[-1]), "path": path})
        for path in paths
    )
    assert "4 drafts (1 beyond `max_iterations`), 1 model call" in sections(told(judged=drafts))
    assert "3 drafts, 1 model call" in sections(told(judged=(*drafts[:2], drafts[3])))


def test_steps_name_who_stood_in_and_an_unknown_cost_is_unknown() -> None:
    tried = (Tried(model="openai:big", code="model_unavailable", detail="busy"),)
    refused = StepFailed(
        about="0" * 16, key="outputs/a", code="model_refused", detail="no", usage=Usage(), next=()
    )
    shown = sections(
        told(asked("compare/1", "x", model="openai:small", tried=tried), refused),
        "## Steps",
        "## Totals",
    )
    helped, failed = shown.splitlines()[4:6]
    who = "openai:small, fallback for openai:big (`model_unavailable`)"
    assert helped == f"| `compare/1` | model call | {who} | 1,020 | unknown | 1.2 |"
    assert failed == "| `outputs/a` | failed | \u2013 | 0 | 0.0000 | 0.0 |"
    assert "| cost (USD) | unknown |" in shown
    assert course(told(refused)) == (
        "## Failed steps\n\n- `outputs/a`: A model or its server refused the call; a retry would"
        " not have helped. (`model_refused`: no)"
    )


def test_totals_tell_the_share_of_cached_input_and_what_was_thinking() -> None:
    used = Usage(input_tokens=10_000, cached_tokens=4_100, output_tokens=900, thinking_tokens=600)
    shown = sections(told(of=snapshot(usage=used)), "## Totals")
    assert "| of which read from a cache | 4,100 (41 %) |" in shown
    assert "| of which thinking | 600 |" in shown
    assert "of which" not in sections(told(of=snapshot(usage=UNKNOWN)), "## Totals")


def test_a_plan_is_told_with_every_revision_and_what_its_tools_said() -> None:
    find = {"name": "it", "instruction": "Find | it", "tool": "find", "arguments": {"order": 1}}
    first = {"steps": [find, {"instruction": "Say it", "needs": ["it"]}]}
    met = {"goal_met": {"met": True, "evidence": []}, "steps": []}
    called = asked("steps/1/call", "", kind="call", reply=ToolReply(ok=False, text="```404"))
    planned = snapshot(strategy="plan_execute")
    happened = (asked("plan", json.dumps(first)), called, asked("steps/1/replan", json.dumps(met)))
    assert course(told(*happened, of=planned)) == (
        "## Plans and tools\n\n**The plan** at `plan`:\n\n"
        '- Find \\| it (tool find: \\{"order": 1\\})\n- Say it (needs it)\n\n'
        "**A tool failed** at `steps/1/call`:\n\n````text\n```404\n````\n\n"
        "**The revised plan** at `steps/1/replan`:\n\nIts verdict: the goal is met."
    )


def test_what_is_looked_up_is_told_with_what_the_tool_said() -> None:
    picked = {"q1": {"tool": "find", "arguments": '{"order": 1}'}, "q2": {"tool": None}}
    called = asked("iterations/1/verify/answers/1/call", "", kind="call",
                   reply=ToolReply(ok=True, text="Sent."))  # fmt: skip
    said = asked("iterations/1/verify/lookups", json.dumps({"lookups": picked}))
    assert course(told(said, called, of=snapshot(strategy="chain_of_verification"))) == (
        "## Plans and tools\n\n**What is looked up** at `iterations/1/verify/lookups`:\n\n"
        '- q1 (tool find: \\{"order": 1\\})\n- q2 (nothing)\n\n'
        "**A tool answered** at `iterations/1/verify/answers/1/call`:\n\n```text\nSent.\n```"
    )


def test_a_worker_that_was_lost_is_told_and_a_pause_is_not_taken_for_one() -> None:
    word = Reviewed(key="reviews/1", action="approve", by="timeout")
    again = Resumed(token=2, replayed=3)
    assert "a worker was lost" not in course(told(Started(token=1), ASKED, word, again))
    lost = course(told(Started(token=1), ASKED, word, again, again))
    assert lost.count("a worker was lost or stopped") == 1
    assert "The review timed out, which counts as if a reviewer approved the draft." in lost


def test_findings_and_what_became_of_issues_stand_below_their_iteration() -> None:
    finding = Finding(source="critic", kind="tone", message="Too *stiff*.", quote="sir", fix="Cut.")
    issue = Issue(
        id="iterations/0#1",
        state=IssueState.RETURNED,
        kind="tone",
        source="critic",
        message="Cold.",
        fix=None,
        quote=None,
        span=None,
        since="iterations/0",
    )
    changes = (TextChange(before="a*", after="b"),)
    fix = FixMade(source="validators/0", kind="spelling", count=1, changes=changes)
    one = Iteration(
        iteration=1,
        path="iterations/1",
        draft="x",
        sha256=sha256_of("x"),
        parent=None,
        score=None,
        scores=(),
        passed=False,
        usage=UNKNOWN,
        weaknesses=(),
        suggestions=(),
        asked=(),
        strengths=("Brief.",),
        findings=(finding,),
        issues=(issue, issue.model_copy(update={"state": IssueState.NEW})),
        fixes=(fix,),
    )
    assert sections(told(judged=(one,)), "## Iterations").partition("### ")[2] == (
        "`iterations/1`\n\nScore not measured, not passed.\n\n"
        '**Corrected before judging**\n\n- `validators/0` (spelling), 1 change: "a\\*" to "b"\n\n'
        "**Findings**\n\n"
        "- `critic`, tone (revise): Too \\*stiff\\*. At \u201csir\u201d. Fix: Cut.\n\n"
        "**Issues**: 1 new, 1 returned.\n\n"
        "- **returned**, since `iterations/0`, tone: Cold.\n\n**Strengths**\n\n- Brief.\n\n"
        "#### The draft\n\n```text\nx\n```"
    )


def test_what_a_result_lacks_is_told_at_the_beginning_and_whether_that_was_accepted() -> None:
    caveat = {"code": "goal_not_met", "path": "plan", "detail": "no *step* remained"}
    lacking = snapshot(
        result={
            "draft": "x",
            "iteration": 1,
            "path": "iterations/1",
            "score": 0.9,
            "sha256": sha256_of("x"),
            "caveats": [caveat],
        }
    )
    story = told(of=lacking)
    shown = "cost unknown.\n\n- **Goal not met.**{} `plan`: no \\*step\\* remained"
    assert sections(story).endswith(shown.format(""))
    request = story.request.model_copy(update={"accept": ("goal_not_met",)})
    accepted = sections(replace(story, request=request))
    assert accepted.endswith(shown.format(" (accepted by the request)"))


def test_every_status_and_stop_reason_makes_a_report() -> None:
    for status in Status:
        for reason in (None, *StopReason):
            report = markdown_of(told(of=snapshot(status=status, stop_reason=reason)))
            assert f"| status | `{status}` |" in report
            assert (f"| stop reason | `{reason}` |" in report) is (reason is not None)
