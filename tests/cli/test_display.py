"""The live table and the coloured difference, on a terminal."""

import io
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from app.cli.display import (
    Progress,
    changed_words,
    coloured,
    display_on,
    lines_of,
    say,
    say_table,
    score_text,
    show_follow_ups,
    show_words,
    table_of,
    usage_text,
)
from app.contract.events import Event, EventType
from app.contract.judgement import Comparison, CriterionScore, Usage
from app.contract.snapshot import DiffOperation, Snapshot
from app.contract.status import Caveat
from tests.cli.scripted_refinement import AT, DIFF, EVENTS, ID, ending, judged


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=120, color_system="standard")


def drawn(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_shows_what_is_known() -> None:
    lines = table(*EVENTS, ending(), width=80)
    assert [line.split() for line in lines if line] == [
        [ID],
        ["iterative,", "generator", "offline:editor,", "critic", "offline:editor"],
        ["passed:", "threshold_met;", "2", "calls,", "240", "tokens,", "$0.0000,", "1.0", "s"],
        ["iteration", "0", "1"],
        ["score", "0.41", "0.91"],
        ["clarity", "0.41", "0.91"],
        ["threshold", "0.85"],
    ]


def table(*events: Event, width: int) -> list[str]:
    """The lines of the table after these events."""
    progress = Progress()
    for event in events:
        progress.add(event)
    console = Console(file=io.StringIO(), width=width)
    console.print(*table_of(progress, ID, width), sep="\n")
    return [line.rstrip() for line in drawn(console).split("\n")]


def test_the_step_under_way_is_shown() -> None:
    assert "now: iterations/0/critique" in table(*EVENTS[:3], width=80)


CRITERIA = ("faithful to the policy", "clarity", "tone", "brevity", "spelling", "事実")


@pytest.mark.parametrize("width", [46, 80])
def test_many_iterations_and_criteria_fit_the_width(width: int) -> None:
    scores = tuple(CriterionScore(criterion=name, score=0.5) for name in CRITERIA)
    data = (judged(n, 0.5, passed=False).model_copy(update={"scores": scores}) for n in range(50))
    events = (
        Event(event=2, type=EventType.ITERATION_COMPLETED, at=AT, data=judgement)
        for judgement in data
    )
    lines = table(EVENTS[0], *events, width=width)
    head = next(line for line in lines if line.startswith("iteration"))
    assert head.endswith("48    49")
    assert [line for line in lines if cell_len(line) > width] == []
    rows = [line.split("0.50")[0].strip(" …") for line in lines if line.count("0.50") > 3]
    names = ("score", *CRITERIA)
    assert all(name.startswith(row) for name, row in zip(names, rows, strict=True))


def test_a_draft_that_a_reviewer_asked_for_beyond_the_limit_is_told_as_such() -> None:
    progress = Progress()
    for number in (3, 4):
        data = judged(number, 0.5, passed=False)
        event = Event(event=number, type=EventType.ITERATION_COMPLETED, at=AT, data=data)
        progress.add(event)
    lines = [line.partition(":")[0] for line in lines_of(progress, ID)]
    assert lines[2:4] == ["iteration 3", "iteration 4, beyond the limit"]


HOSTILE = "tone\n\u202eforged 1.00\x1b[2K\x9b1A\r\u2066"


def test_a_hostile_name_stays_on_its_line_and_overrides_nothing() -> None:
    scores = (CriterionScore(criterion=HOSTILE, score=0.5),)
    data = judged(0, 0.5, passed=False).model_copy(update={"scores": scores})
    event = Event(event=2, type=EventType.ITERATION_COMPLETED, at=AT, data=data)
    progress = Progress()
    progress.add(event)
    console = Console(file=io.StringIO(), width=200)
    for line in lines_of(progress, ID):
        say(console, line)
    say_table([("criterion", "score"), (HOSTILE, "0.50")], console)
    console.print(*table_of(progress, ID, 200), sep="\n")
    shown = drawn(console)
    assert shown.count("forged") == 3
    assert [line for line in shown.split("\n") if "forged" in line and "tone" not in line] == []
    assert not {*shown} & {*"\u202e\u2066\x1b\x9b\r"}


def shown_on(console: Console) -> str:
    progress = Progress()
    progress.add(EVENTS[0])
    with display_on(console, ID) as show:
        show(progress)
    return drawn(console)


def test_a_terminal_gets_the_table_and_a_file_gets_lines_though_colours_are_forced() -> None:
    assert "limits: threshold 0.85" in shown_on(terminal())
    console = Console(file=TerminalText(), force_terminal=True, color_system="standard")
    assert "now: waiting" in shown_on(console)


class TerminalText(io.StringIO):
    """What a terminal has been sent."""

    def isatty(self) -> bool:
        return True


def test_what_was_made_of_the_result_is_shown_after_it() -> None:
    console, ended = terminal(), ending().data
    assert isinstance(ended, Snapshot)
    assert ended.result is not None
    told = {
        "outputs": {"subject": "Your refund"},
        "caveats": (
            Caveat(code="text_missing", path="outputs/sms", detail="no text was written for it"),
            Caveat(code="goal_not_met", path="plan", detail="no step remained"),
        ),
        "comparison": Comparison(against="iterations/0", verdict="better", orders=()),
    }
    show_follow_ups(ended.result.model_copy(update=told), console)
    for shown in (
        "Your refund",
        "text missing: outputs/sms",
        "goal not met: plan: no step remained",
        "in both orders: better",
    ):
        assert shown in drawn(console)


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


def words(before: str, after: str) -> list[tuple[str, str]]:
    return list(changed_words(before, after))


def test_only_the_words_that_changed_stand_out() -> None:
    assert words("We will utilize it now.\n", "We will use it now.\n") == [
        ("=", "We will "),
        ("-", "utilize"),
        ("+", "use"),
        ("=", " it now.\n"),
    ]


def test_words_that_change_side_by_side_are_one_change() -> None:
    changed = words("in order to see", "so as to see")
    assert changed == [("-", "in order"), ("+", "so as"), ("=", " to see")]


@given(st.text("ab \n", max_size=20), st.text("ab \n", max_size=20))
def test_both_texts_can_be_read_from_what_changed(before: str, after: str) -> None:
    changed = words(before, after)
    assert "".join(text for kind, text in changed if kind in "=-") == before
    assert "".join(text for kind, text in changed if kind in "=+") == after


@pytest.mark.parametrize(
    ("colours", "shown"),
    [(None, "[-In order to be short.-]{+Short.+}\n"), ("standard", "In order to be short.")],
)
def test_without_colours_what_changed_stands_in_brackets(
    colours: Literal["standard"] | None, shown: str
) -> None:
    console = Console(file=io.StringIO(), force_terminal=bool(colours), color_system=colours)
    replaced = DiffOperation(
        op="replace",
        from_start=0,
        from_end=1,
        to_start=0,
        to_end=1,
        from_text="In order to be short.\n",
        to_text="Short.\n",
    )
    show_words(DIFF.model_copy(update={"operations": (replaced,)}), console)
    assert shown in drawn(console)
    assert ("[-" in drawn(console)) == (colours is None)


def test_most_of_what_did_not_change_is_left_out() -> None:
    console = Console(file=io.StringIO())
    same = DiffOperation(
        op="equal",
        from_start=0,
        from_end=1,
        to_start=0,
        to_end=1,
        from_text="word " * 1_000,
        to_text="word " * 1_000,
    )
    changed = same.model_copy(update={"op": "insert", "from_text": "", "to_text": "new"})
    show_words(DIFF.model_copy(update={"operations": (same, changed)}), console)
    assert drawn(console).endswith("word word {+new+}\n")
    assert "[... 988 words ...]" in drawn(console)
