"""The chart of a report, and the page that folds what is long, from drafts written down here."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from app.contract.drafts import sha256_of
from app.contract.events import Event, EventType, IterationCompleted
from app.contract.judgement import CriterionScore, Finding, QualityEstimate, Usage
from app.contract.limits import Limits
from app.contract.requests import RefinementRequest
from app.contract.snapshot import Best, Iteration, Result
from app.service.iterations import GivenDraft, diff_of
from app.service.report import Story, report_of
from app.service.report.chart import Chart, charts_in, pictures, scores
from app.service.report.markdown import fenced, listed
from app.service.report.page import page_of
from app.service.report.sections import iterations
from tests.api.test_report_sections import QUEUED, snapshot
from tests.api.test_reports import Page

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
    of = tuple(CriterionScore(criterion=name, score=it) for name, it in criteria.items())
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
    for number, it in enumerate(drafts):
        threshold = thresholds[number] if thresholds else 0.85
        shared = it.model_dump(include={*IterationCompleted.model_fields} - {"draft", "issues"})
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


def picture(of: Story) -> ET.Element:
    """Return the first chart, as the XML that it is."""
    found = ET.fromstring(next(pictures(of))).find("svg")
    assert found is not None
    return found


def points(svg: ET.Element, kind: str) -> list[tuple[float, float]]:
    """Return where the points of a series are drawn."""
    drawn = next(it for it in svg.iter("path") if it.get("class") == f"{kind} points")
    found = re.findall(r"M(-?[\d.]+) (-?[\d.]+)h0", drawn.get("d", ""))
    return [(float(x), float(y)) for x, y in found]


def line(svg: ET.Element, kind: str) -> str:
    return next(it.get("d", "") for it in svg.iter("path") if it.get("class") == kind)


def test_the_text_of_a_chart_has_a_line_for_the_score_and_for_every_criterion() -> None:
    drafts = [
        judged("iterations/0", 0.4, clarity=0.5, tone=0.3),
        judged("iterations/1", None, clarity=0.9, tone=None),
        judged("iterations/2", 0.85, clarity=0.9, tone=0.8),
    ]
    estimate = QualityEstimate(value=0.8, error=0.05, chance=0.2)
    assert scores(story(drafts, (0.9, 0.9, 0.8), estimate)) == (
        "## Scores\n\n```chart\n"
        "score    ▂·▇  0.40 to 0.85\n"
        "clarity  ▃▇▇  0.50 to 0.90\n"
        "tone     ▁·▆  0.30 to 0.80\n"
        "threshold 0.90, then 0.80\n"
        "best draft iterations/2: 0.85\n"
        "estimated quality 0.80, standard error 0.05\n"
        "```"
    )


@pytest.mark.parametrize("number", [1, 2, 11, 50])
def test_every_number_of_drafts_fits_into_the_picture(number: int) -> None:
    svg = picture(story(chain(number, clarity=1.0, tone=0.0)))
    drawn = points(svg, "score")
    assert len(drawn) == number
    assert all(30 <= x <= 366 and 8 <= y <= 196 for x, y in drawn)
    assert all(x < later and y > higher for (x, y), (later, higher) in pairwise(drawn))
    below = [it.text for it in svg.iter("text") if float(it.get("y", "0")) > 200]
    assert 1 <= len(below) <= 10
    assert below[0] == "0"


def test_a_picture_says_in_words_what_it_shows_and_every_figure_is_in_a_table() -> None:
    of = story(chain(3, clarity=0.5, tone=0.25))
    svg = picture(of)
    said = {it.get("id"): it.text for it in svg if it.get("id")}
    title, told = (said[name] for name in svg.get("aria-labelledby", "").split())
    assert title == "Scores of 3 drafts"
    assert told == (
        "score 0.30 to 0.70; threshold 0.85; best draft iterations/2: 0.70."
        " A table with all figures follows."
    )
    table = ET.fromstring(next(pictures(of))).find("details//table")
    assert table is not None
    assert ["".join(row.itertext()) for row in table.iter("tr")] == [
        "draftscoreclaritytone",
        "iterations/00.300.500.25",
        "iterations/10.500.500.25",
        "iterations/20.700.500.25",
    ]


def test_the_threshold_the_best_draft_and_the_error_of_its_estimate_are_drawn_to_scale() -> None:
    drafts = [judged("iterations/0", 0.5), judged("iterations/1", 0.9, parent="iterations/0")]
    svg = picture(story(drafts, (0.5, 0.9), QualityEstimate(value=0.8, error=0.1, chance=0.2)))
    [(_, low), (x, high)] = points(svg, "score")
    levels = [float(it) for it in re.findall(r"M[\d.]+ ([\d.]+)H", line(svg, "threshold"))]
    assert levels == [low, high]
    [best] = [it for it in svg.iter("circle") if it.get("class") == "best"]
    assert (float(best.get("cx", "")), float(best.get("cy", ""))) == (x, high)
    [(bottom, top)] = re.findall(r"^M[\d.]+ ([\d.]+)V([\d.]+)", line(svg, "estimate"))
    assert float(top) == high
    assert float(bottom) == pytest.approx((low + high) / 2, abs=0.1)


def test_only_drafts_that_came_of_each_other_are_joined_by_a_line() -> None:
    drafts = [
        judged("iterations/1", 0.5),
        judged("iterations/2", 0.6),
        judged("iterations/3", 0.7, parent="iterations/2"),
        judged("iterations/4", None, parent="iterations/3"),
        judged("iterations/5", 0.8, parent="iterations/3"),
    ]
    assert re.sub(r"[^ML]", "", line(picture(story(drafts)), "score")) == "MMLM"


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
    assert [(it.search, it.thresholds) for it in charts_in(of)] == [
        ("", (0.85,)),
        ("stages/facts", (0.6, 0.6)),
        ("stages/text/parts/part-1", (None, None)),
        ("stages/text", (0.85, 0.85)),
    ]
    assert "\n\n### `stages/facts`\n\n```chart\n" in scores(of)


def test_the_charts_of_many_parts_are_limited_and_the_others_are_counted() -> None:
    drafts = [judged(f"parts/part-{n}/iterations/{k}", 0.5) for n in range(30) for k in (1, 2)]
    of = story(drafts, strategy={"kind": "nested"})
    assert len([*pictures(of)]) == scores(of).count("```chart") == 25
    assert scores(of).endswith(
        "The scores of 5 further stages, passes and parts are in Iterations."
    )


def test_a_criterion_named_like_markup_is_text_in_picture_legend_and_table() -> None:
    hostile = judged("iterations/0", 0.4).model_copy(
        update={"scores": (CriterionScore(criterion=HOSTILE, score=0.5),)}
    )
    shown = Page("".join(pictures(story([hostile]))))
    assert "script" not in shown.elements
    assert (
        shown.text.count("</svg>\ufffd\ufffd<script>alert</script>…") == 2
    )  # in the legend and in the table
    assert not {*shown.text} & {*"\x1b\u202e"}


def test_scores_that_hardly_differ_are_drawn_over_a_tenth() -> None:
    chart = Chart(
        "", (judged("iterations/0", 0.84), judged("iterations/1", 0.86)), (0.85,) * 2, None
    )
    assert chart.axis == (8, 9, 1)
    assert Chart("", (judged("iterations/0", 1.0),), (1.0,), None).axis == (9, 10, 1)
    assert Chart("", (judged("iterations/0", None),), (0.5,), None).axis == (4, 6, 1)


def test_a_page_folds_all_but_the_ending_the_result_and_the_chart() -> None:
    page = report_of(story(chain(3)), "html")
    folded = re.findall(r"<details[^>]*>\s*<summary>(?:<h\d>)?([^<]*)", page)
    assert folded[:3] == ["The figures of this chart", "Facts", "The request"]
    open_part = page.partition("<details")[0]
    assert all(f"<h2>{it}</h2>" in open_part for it in ("The result", "Scores"))
    assert page.count("<details") == page.count("</details>") == page.count("<summary>")


def test_the_text_of_every_draft_but_the_result_is_folded_below_its_judgement() -> None:
    page = Page(report_of(story(chain(3)), "html"))
    assert page.blocks[0] == "Text 2.\n"
    assert page.blocks[-2:] == ["Text 0.\n", "Text 1.\n"]


@pytest.mark.parametrize(("number", "folded"), [(6, 0), (7, 1)])
def test_items_of_a_list_after_the_fifth_are_folded_if_there_are_several(
    number: int, folded: int
) -> None:
    page = page_of(listed(map(str, range(number))), "A list", ())
    assert page.count("<details>") == page.count("</details>") == folded
    assert page.count("<li>") == number
    assert ("<summary>2 more</summary>" in page) is bool(folded)


def test_a_difference_marks_changed_words_and_folds_passages_that_stayed() -> None:
    same = "This <b>long</b> paragraph is in both texts. " * 6
    before, after = (
        f"Keep\n{same}\nCut the the <i>word</i>.\n",
        f"Keep\n{same}\nCut the <i>word</i>!",
    )
    unified = diff_of(GivenDraft(before), GivenDraft(after)).unified
    page = page_of(fenced(unified, "diff"), "A difference", ())
    assert "<del>the &lt;i&gt;word&lt;/i&gt;.</del>" in page
    assert "<ins>&lt;i&gt;word&lt;/i&gt;!</ins>" in page
    assert "<summary>2 unchanged lines</summary>" in page
    shown = Page(page)
    assert same in shown.blocks[1]
    assert "-Cut the the <i>word</i>.\n+Cut the <i>word</i>!\n" in shown.blocks[2]
    assert "No newline" not in shown.text


def test_a_long_text_can_be_scrolled_with_the_keyboard() -> None:
    assert "<pre><code>" in page_of(fenced("Short.\n" * 50), "A text", ())
    assert '<pre tabindex="0"' in page_of(fenced("Long.\n" * 60), "A text", ())


def test_fifty_drafts_as_long_as_they_come_make_a_report_of_a_bounded_size() -> None:
    drafts = [
        judged(f"iterations/{n}", 0.5, f"{f'Draft {n} of a long text. ' * 800}\n" * 10)
        for n in range(50)
    ]
    page = report_of(story(drafts), "html")
    assert len(page) < 1_500_000
    assert page.count(" more characters)") == 49
    assert "GET /v1/refinements/ref_1/iterations" in page


def test_of_very_many_drafts_the_judgements_of_those_of_the_whole_are_shown_first() -> None:
    inner = [judged(f"parts/part-{n}/iterations/1", 0.5) for n in range(600)]
    whole = judged("iterations/1", 0.5)
    shown = iterations(story([*inner, whole], strategy={"kind": "nested"}))
    assert "\n\n101 further rows are not shown.\n\n" in shown
    assert "\n\nThe judgements of 501 drafts are not shown.\n\n" in shown
    assert shown.count("\n### ") == 100
    assert "\n### `iterations/1`\n" in shown


def test_of_very_many_findings_the_first_are_shown_and_the_others_counted() -> None:
    findings = [Finding(source="critic", kind="tone", message=f"Fault {n}.") for n in range(60)]
    draft = judged("iterations/1", 0.5).model_copy(update={"findings": tuple(findings)})
    shown = iterations(story([draft]))
    assert shown.count(": Fault ") == 50
    assert "\n- 10 further ones are not shown." in shown
