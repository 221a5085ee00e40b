"""The chart of a report, and the page that folds what is long, from drafts written down here."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from app.contract.drafts import sha256_of
from app.contract.events import Event, EventType, IterationCompleted
from app.contract.judgement import CriterionScore, Finding, QualityEstimate, Usage
from app.contract.limits import Limits
from app.contract.requests import RefinementRequest
from app.contract.snapshot import Best, Iteration, Result
from app.service.report import Story, markdown_of
from app.service.report.chart import Chart, charts_in
from tests.api.test_report_sections import QUEUED, sections, snapshot
from tests.api.test_reports import Page, as_html

AT = datetime(2026, 5, 4, 6, 30, tzinfo=UTC)
HOSTILE = "</svg>\x1b\u202e<script>alert</script> and more"


def judged(
    path: str,
    score: float | None,
    text: str = "Text.",
    parent: str | None = None,
    **criteria: float | None,
) -> Iteration:
    """Return a judged draft with these scores by criterion."""
    of = tuple(CriterionScore(criterion=name, score=score) for name, score in criteria.items())
    return Iteration(
        iteration=int(path.rpartition("/")[2]),
        path=path,
        draft=text,
        sha256=sha256_of(text),
        parent=parent,
        score=score,
        scores=of,
        passed=False,
        findings=(),
        strengths=(),
        weaknesses=(),
        suggestions=(),
        asked=(),
        usage=Usage(),
    )


def story(
    drafts: Sequence[Iteration],
    thresholds: Sequence[float] = (),
    estimate: QualityEstimate | None = None,
    strategy: dict[str, Any] | None = None,
) -> Story:
    """Return the story of an ended refinement; its result is the last draft."""
    last = drafts[-1]
    best = {name: getattr(last, name) for name in ("iteration", "path", "score", "sha256")}
    events = [Event(event=1, type=EventType.QUEUED, at=AT, data=QUEUED)]
    for number, draft in enumerate(drafts):
        threshold = thresholds[number] if thresholds else 0.85
        shared = draft.model_dump(include={*IterationCompleted.model_fields} - {"draft", "issues"})
        data = IterationCompleted(
            **shared,
            best=Best.model_validate(best),
            limits=Limits(threshold=threshold, max_iterations=50),
        )
        kind = EventType.ITERATION_COMPLETED
        events.append(Event(event=number + 2, type=kind, at=AT, data=data))
    request = RefinementRequest.model_validate(
        {"task": "Tell.", "draft": "A draft.", "strategy": strategy or {"kind": "iterative"}}
    )
    result = Result(draft=last.draft, estimate=estimate, **best)
    of = snapshot(result=result, best=best, last_event=len(events))
    return Story(of, request, tuple(events), tuple(drafts))


def chain(number: int, **criteria: float) -> list[Iteration]:
    """Return drafts, each revised from the one before, with rising scores."""
    parents = [None, *(f"iterations/{n}" for n in range(number))]
    return [
        judged(
            f"iterations/{n}", round(0.3 + 0.6 * n / number, 4), f"Text {n}.", parent, **criteria
        )
        for n, parent in zip(range(number), parents, strict=False)
    ]


def test_the_text_of_a_chart_has_a_line_for_the_score_and_for_every_criterion() -> None:
    drafts = [
        judged("iterations/0", 0.4, clarity=0.5, tone=0.3),
        judged("iterations/1", None, clarity=0.9, tone=None),
        judged("iterations/2", 0.85, clarity=0.9, tone=0.8),
    ]
    estimate = QualityEstimate(value=0.8, error=0.05, chance=0.2)
    assert sections(story(drafts, (0.9, 0.9, 0.8), estimate), "## Scores") == (
        "## Scores\n\n```chart\n"
        "score    ▂·▇  0.40 to 0.85\n"
        "clarity  ▃▇▇  0.50 to 0.90\n"
        "tone     ▁·▆  0.30 to 0.80\n"
        "threshold 0.90, then 0.80\n"
        "best draft iterations/2: 0.85\n"
        "estimated quality 0.80, standard error 0.05\n"
        "```"
    )


def test_stages_have_charts_of_their_own_with_their_own_thresholds() -> None:
    stages = [
        {"name": "facts", "instructions": "Find them.", "threshold": 0.6, "max_iterations": 2},
        {"name": "text", "instructions": "Write it.", "max_iterations": 2},
        {"name": "end", "instructions": "End it."},
    ]
    drafts = [
        judged("stages/facts/iterations/1", 0.5),
        judged("stages/facts/iterations/2", 0.7),
        judged("stages/text/parts/part-1/iterations/1", 0.5),
        judged("stages/text/parts/part-1/iterations/2", 0.5),
        judged("stages/text/iterations/1", 0.5),
        judged("stages/text/iterations/2", 0.5),
        judged("stages/end/iterations/1", 0.5),
        judged("iterations/1", 0.9),
    ]
    of = story(drafts, strategy={"kind": "stepwise", "stages": stages})
    assert [(chart.search, chart.thresholds) for chart in charts_in(of)] == [
        ("", (0.85,)),
        ("stages/facts", (0.6, 0.6)),
        ("stages/text/parts/part-1", (None, None)),
        ("stages/text", (0.85, 0.85)),
    ]
    assert "\n\n### `stages/facts`\n\n```chart\n" in sections(of, "## Scores")


def test_the_charts_of_many_parts_are_limited_and_the_others_are_counted() -> None:
    drafts = [judged(f"parts/part-{n}/iterations/{k}", 0.5) for n in range(30) for k in (1, 2)]
    of = story(drafts, strategy={"kind": "nested"})
    shown = sections(of, "## Scores")
    assert shown.count("```chart") == 25
    assert shown.endswith("The scores of 5 further stages, passes and parts are in Iterations.")


def test_a_criterion_named_like_markup_is_text() -> None:
    hostile = judged("iterations/0", 0.4).model_copy(
        update={"scores": (CriterionScore(criterion=HOSTILE, score=0.5),)}
    )
    shown = Page(as_html(sections(story([hostile]), "## Scores")))
    assert "script" not in shown.elements
    assert shown.text.count("</svg>\ufffd\ufffd<script>alert</script>…") == 1
    assert not {*shown.text} & {*"\x1b\u202e"}


def test_scores_that_hardly_differ_are_drawn_over_a_tenth() -> None:
    chart = Chart(
        "", (judged("iterations/0", 0.84), judged("iterations/1", 0.86)), (0.85,) * 2, None
    )
    assert chart.axis == (8, 9)
    assert Chart("", (judged("iterations/0", 1.0),), (1.0,), None).axis == (9, 10)
    assert Chart("", (judged("iterations/0", None),), (0.5,), None).axis == (4, 6)


def test_fifty_drafts_as_long_as_they_come_make_a_report_of_a_bounded_size() -> None:
    drafts = [
        judged(f"iterations/{n}", 0.5, f"{f'Draft {n} of a long text. ' * 800}\n" * 10)
        for n in range(50)
    ]
    page = markdown_of(story(drafts))
    assert len(page) < 1_500_000
    assert page.count(" more characters)") == 49
    assert "GET /v1/refinements/ref_1/iterations" in page


def test_of_very_many_drafts_the_judgements_of_those_of_the_whole_are_shown_first() -> None:
    inner = [judged(f"parts/part-{n}/iterations/1", 0.5) for n in range(600)]
    whole = judged("iterations/1", 0.5)
    shown = sections(story([*inner, whole], strategy={"kind": "nested"}), "## Iterations")
    assert "\n\n101 further rows are not shown.\n\n" in shown
    assert "\n\nThe judgements of 501 drafts are not shown.\n\n" in shown
    assert shown.count("\n### ") == 100
    assert "\n### `iterations/1`\n" in shown


def test_of_very_many_findings_the_first_are_shown_and_the_others_counted() -> None:
    findings = [Finding(source="critic", kind="tone", message=f"Fault {n}.") for n in range(60)]
    draft = judged("iterations/1", 0.5).model_copy(update={"findings": tuple(findings)})
    shown = sections(story([draft]), "## Iterations")
    assert shown.count(": Fault ") == 50
    assert "\n- 10 further ones are not shown." in shown
