"""Misspelled words are found, and those that are right here are left alone."""

import subprocess
import sys
from types import FrameType

import pytest

from app.contract.validators.text import SpellingValidator
from tests.validators import violations
from workers.validators.violation import MAX_VIOLATIONS, Violation


def found(draft: str, *allow: str) -> list[Violation]:
    return violations(SpellingValidator(kind="spelling", allow=allow), draft)


def test_points_at_every_misspelled_word_in_order() -> None:
    hits = found("We recieved the the form\nand an unicorn.")
    assert [(hit.quote, hit.fix) for hit in hits] == [
        ("recieved", 'Write "received".'),
        ("the the", 'Write "the" once.'),
        ("an", 'Write "a".'),
    ]
    assert hits[0].message == '"recieved" should be "received" at line 1, column 4'
    assert hits[2].span == (29, 31)


@pytest.mark.parametrize(
    "draft",
    ["We received the form.", "The `recieved` flag.", "See [here](/recieved).", "Mr Teh paid.", ""],
)
def test_a_draft_without_slips_passes(draft: str) -> None:
    assert found(draft) == []


@pytest.mark.parametrize(
    "draft",
    [
        "Das ist die Frau, die die Kinder kennt.",
        "Vous savez que vous vous trompez.",
        "Wij weten dat dat niet kan.",
    ],
)
def test_a_sentence_of_another_language_may_repeat_its_own_words(draft: str) -> None:
    assert found(draft) == []
    assert len(found(f"{draft}\n\nFix the the bug. Three tables tables are left.")) == 2


@pytest.mark.parametrize(
    "draft",
    [
        "Elle a aidé son frère.",
        "Voy a entregar el informe.",
        "Ich denke an euch.",
        "Vado a incontrare.",
    ],
)
def test_no_article_is_seen_in_a_sentence_of_another_language(draft: str) -> None:
    assert found(draft) == []


def test_a_word_that_is_allowed_is_left_alone() -> None:
    assert found("Recieved, recieved and teh.", "recieved", "TEH") == []


def test_a_capital_behind_a_word_is_a_name() -> None:
    assert found("Plan A involves two steps, and vitamin A is in it.") == []
    assert len(found("A involved person came. A involved person left.")) == 2


def test_reports_only_the_first_slips() -> None:
    assert len(found("we recieved it and " * 100)) == MAX_VIOLATIONS


def calls_to_check(draft: str) -> int:
    """Return how many functions the check calls, in Python and in C."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        found(draft)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    ("words", "times"),
    [
        ("We have received the form that you sent us in June, and it is complete. ", 200),
        ("is is ", 100),
        ("the recieve and ", 100),
        ("an error is a error ", 100),
    ],
)
def test_the_work_grows_no_faster_than_the_draft(words: str, times: int) -> None:
    calls_to_check(words)  # reads the word lists
    assert calls_to_check(words * 10 * times) < 11 * calls_to_check(words * times)


READS_NOTHING = """
import sys
from app.contract.validators.text import SpellingValidator
from workers.validators import check_of

check = check_of("text", "spelling")
sys.addaudithook(lambda event, said: event == "open" and sys.exit(f"reads {said[0]}"))
draft = "I recieved the the form, an unicorn and a hour. We could of been told that that is cut."
assert len(list(check(SpellingValidator(kind="spelling"), draft))) == 5
"""


def test_the_time_to_read_the_word_lists_does_not_count_against_a_draft() -> None:
    done = subprocess.run(
        [sys.executable, "-c", READS_NOTHING], capture_output=True, check=False, text=True
    )
    assert done.returncode == 0, done.stderr
