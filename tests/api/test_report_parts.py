"""The table of stages, passes and parts in a report, from journals that are written down here."""

from typing import Any

from app.contract.drafts import sha256_of
from app.contract.events import (
    Event,
    EventData,
    EventType,
    IterationCompleted,
    StepCompleted,
    StepFailed,
)
from app.contract.judgement import Usage
from app.contract.requests import RefinementRequest
from app.contract.snapshot import Best, Result
from app.contract.status import Caveat, Status
from app.service.report.story import Story, parts_in, story_of
from tests.api.test_report_sections import AT, LIMITS, QUEUED, asked, sections, snapshot

TYPES = {
    StepCompleted: EventType.STEP_COMPLETED,
    StepFailed: EventType.STEP_FAILED,
    IterationCompleted: EventType.ITERATION_COMPLETED,
}


DRAFT = {"stepwise": "## Second\n\nOld.\n\n## Last\n\nOld.\n"}


def judged(at: str, text: str, score: float, best: tuple[str, float] | None = None) -> list[Any]:
    """A draft that was written, and its judgement."""
    number = int(at.rpartition("/")[2])
    path, highest = best or (at, score)
    done = IterationCompleted(
        iteration=number,
        path=at,
        sha256=sha256_of(text),
        parent=None,
        score=score,
        scores=(),
        passed=score > 0.8,
        findings=(),
        strengths=(),
        weaknesses=(),
        suggestions=(),
        asked=(),
        best=Best(iteration=number, path=path, score=highest, sha256=sha256_of(text)),
        limits=LIMITS,
    )
    return [asked(f"{at}/revise", text), asked(f"{at}/critique", "{}"), done]


def story(strategy: dict[str, Any], *happened: EventData, **ended: Any) -> Story:
    """The story of a request with this strategy."""
    first = Event(event=1, type=EventType.QUEUED, at=AT, data=QUEUED)
    events = [
        Event(event=number, type=TYPES[type(data)], at=AT, data=data)
        for number, data in enumerate(happened, 2)
    ]
    request = RefinementRequest.model_validate(
        {"task": "Tell.", "draft": DRAFT.get(strategy["kind"]), "strategy": strategy}
    )
    return story_of(snapshot(last_event=99, **ended), request, [first, *events])


def states(told: Story) -> list[tuple[str, ...]]:
    """The cells of every row, without the calls."""
    rows = sections(told, "## Parts").splitlines()[4:]
    return [tuple(cell.strip() for cell in row.split("|")[1:-2]) for row in rows]


def test_chapters_of_an_outline_are_shown_with_their_states_and_scores() -> None:
    outline = "- Dawn: the boats come home\n- Noon: *rest*\n- Dusk: the end\n- Night: dark"
    result = {"draft": "x", "iteration": 1, "path": "iterations/1", "score": 0.7, "sha256": "0"}
    given_up = Caveat(code="stage_given_up", path="parts/part-3", detail="it failed")
    no_text = Caveat(code="text_missing", path="parts/part-3", detail="no text was written for it")
    told = story(
        {"kind": "nested", "parts": "auto"},
        asked("outline", "no list"),
        asked("outline/again/1", outline),
        *judged("parts/part-2/iterations/1", "Rest.", 0.9),
        *judged("parts/part-1/iterations/1", "Boats.", 0.4),
        *judged("parts/part-1/iterations/2", "Bots.", 0.3, ("parts/part-1/iterations/1", 0.4)),
        StepFailed(
            about="0" * 16,
            key="parts/part-3/iterations/1/draft",
            code="model_refused",
            detail="no",
            usage=Usage(calls=1),
            next=(),
        ),
        result=Result.model_validate({**result, "caveats": [given_up, no_text]}),
    )
    assert states(told) == [
        ("`parts/part-1`", "Dawn", "not passed", "0.40", "2"),
        ("`parts/part-2`", "Noon", "passed", "0.90", "1"),
        ("`parts/part-3`", "Dusk", "missing", "\u2013", "0"),
        ("`parts/part-4`", "Night", "not begun", "\u2013", "0"),
    ]


def test_parts_within_stages_follow_their_stage_in_the_order_of_the_text() -> None:
    stages = [
        {"name": "facts", "instructions": "Find them."},
        {"name": "text", "mode": "revise", "instructions": "Write it.", "body": {"kind": "nested"}},
    ]
    told = story(
        {"kind": "stepwise", "stages": stages},
        *judged("stages/facts/iterations/1", "Facts.", 0.9),
        *judged("stages/text/parts/section-10/iterations/0", "## Last\n\nText.", 0.9),
        *judged("stages/text/parts/section-2/iterations/0", "## Second\n\nText.", 0.9),
        asked("iterations/3/parts/check", "none"),
        status=Status.RUNNING,
        phase=("stages/text/parts/section-2/iterations/1/revise",),
    )
    assert [(part.path, part.title) for part in parts_in(told)] == [
        ("stages/facts", "Find them."),
        ("stages/text", "Write it."),
        ("stages/text/parts/section-2", "Second"),
        ("stages/text/parts/section-10", "Last"),
    ]
    assert [state[2] for state in states(told)] == [
        "passed",
        "in progress",
        "in progress",
        "passed",
    ]


def test_a_text_without_parts_has_no_such_table() -> None:
    told = story({"kind": "iterative"}, *judged("iterations/1", "Text.", 0.9))
    assert sections(told, "## Parts") == ""
