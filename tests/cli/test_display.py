"""The live table and the coloured difference, on a terminal."""

import io

import pytest
from rich.console import Console

from app.cli.display import (
    Progress,
    bar,
    coloured,
    display_on,
    score_text,
    show_follow_ups,
    usage_text,
)
from app.contract.caveats import Caveat
from app.contract.judgement import Comparison, Usage
from app.contract.snapshot import Snapshot
from tests.cli.scripted_refinement import DIFF, EVENTS, ID, ending


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=120, color_system="standard")


def drawn(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_shows_what_is_known() -> None:
    console, progress = terminal(), Progress()
    with display_on(console, ID) as display:
        for event in (*EVENTS, ending()):
            progress = progress.after(event)
            display.show(progress)
    table = drawn(console)
    for shown in (ID, "clarity 0.91", "threshold 0.85", "passed", "succeeded: threshold_met"):
        assert shown in table


def test_the_step_under_way_is_shown() -> None:
    console, progress = terminal(), Progress()
    with display_on(console, ID) as display:
        for event in EVENTS[:3]:
            progress = progress.after(event)
        display.show(progress)
    assert "critique" in drawn(console)


def test_what_was_made_of_the_result_is_shown_after_it() -> None:
    console, ended = terminal(), ending().data
    assert isinstance(ended, Snapshot)
    assert ended.result is not None
    told = {
        "outputs": {"subject": "Your refund"},
        "missing": ("outputs/sms",),
        "caveats": (Caveat(code="goal_not_met", path="plan", detail="no step remained"),),
        "comparison": Comparison(against="iterations/0", verdict="better", orders=()),
    }
    show_follow_ups(ended.result.model_copy(update=told), console)
    for shown in (
        "Your refund",
        "outputs/sms is missing",
        "goal not met: plan: no step remained",
        "in both orders: better",
    ):
        assert shown in drawn(console)


@pytest.mark.parametrize(("score", "filled"), [(0.0, 0), (0.5, 12), (1.0, 24), (None, 0)])
def test_the_bar_is_as_long_as_the_score(score: float | None, filled: int) -> None:
    cells = bar(score, threshold=0.5, passed=True)
    assert len(cells.plain) == 24
    assert cells.plain.index("┃") == 12
    assert sum(span.end - span.start for span in cells.spans if span.style == "green") == filled


@pytest.mark.parametrize(
    ("score", "text"), [(0.849, "0.84"), (0.85, "0.85"), (0.29, "0.29"), (1.0, "1.00")]
)
def test_a_score_is_never_rounded_up_to_a_threshold_it_missed(score: float, text: str) -> None:
    assert score_text(score) == text


def test_the_share_of_cached_input_is_shown_if_there_is_any() -> None:
    used = Usage(calls=2, input_tokens=1_000, output_tokens=200, cached_tokens=410)
    assert usage_text(used) == "2 calls, 1,200 tokens (41% of the input cached), $0.0000, 0.0 s"
    assert "cached" not in usage_text(Usage(calls=1, input_tokens=1_000))


def test_colours_change_no_character_of_the_difference() -> None:
    lines = [line.plain for line in coloured(DIFF.unified)]
    assert "\n".join(lines) + "\n" == DIFF.unified


def test_only_the_words_that_changed_stand_out() -> None:
    unified = "@@ -1 +1 @@\n-We will utilize it now.\n+We will use it now.\n"
    removed, added = list(coloured(unified))[1:]
    strong = [
        line.plain[span.start : span.end]
        for line in (removed, added)
        for span in line.spans
        if "reverse" in str(span.style)
    ]
    assert strong == ["utilize", "use"]


def test_a_line_removed_with_nothing_in_its_place_is_whole() -> None:
    unified = "@@ -1,2 +1 @@\n keep\n---- a rule\n"
    assert [line.plain for line in coloured(unified)] == unified.split("\n")[:-1]
