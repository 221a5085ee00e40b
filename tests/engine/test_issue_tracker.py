"""Which finding is which issue, from draft to draft."""

from typing import Any

import pytest

from app.contract.judgement import Finding
from workers.engine.moves import MOST_ISSUES, NO_ISSUES, IssueTracker

SAME = [
    ("The 30-day limit is not stated.", "Does not state the 30-day limit."),
    ("The refund period of 30 days is missing.", "Missing: the 30-day refund period."),
    ("The text has 140 words; at most 120 are allowed.", "It has 131 words; at most 120 allowed."),
    ("Too formal for a customer.", "Still too formal for a customer to read."),
    ("Claims that shipping is free, which policy.md does not say.",
     "It claims shipping is free; policy.md does not say that."),
]  # fmt: skip
DIFFERENT = [
    ("Does not state the 30-day limit.", "Does not state who pays the shipping."),
    ("The first sentence is too long.", "The last paragraph is too short."),
    ("Claims that shipping is free.", "Claims that refunds arrive at once."),
    ("The tone is cold.", "Too formal for a customer."),
    ("It never says whom to write to.", "It never says what a refund costs."),
]


def finding(message: str, **more: Any) -> Finding:
    return Finding(**{"source": "critic", "kind": "quality", "message": message, **more})


def line(*iterations: list[Finding]) -> list[IssueTracker]:
    """Follow drafts that were each revised from the one before."""
    ledgers = [NO_ISSUES]
    for number, findings in enumerate(iterations, 1):
        ledgers.append(ledgers[-1].next(f"iterations/{number}", findings))
    return ledgers[1:]


def states(tracker: IssueTracker) -> dict[str, str]:
    return {it.id: it.state.value for it in tracker.issues}


def test_an_issue_is_new_carried_resolved_and_comes_back() -> None:
    late, cold = finding("Does not state the 30-day limit."), finding("The tone is cold.")
    told = line([late, cold], [late], [cold], [cold, late])
    assert [states(it) for it in told] == [
        {"iterations/1#1": "new", "iterations/1#2": "new"},
        {"iterations/1#1": "carried", "iterations/1#2": "resolved"},
        {"iterations/1#2": "returned", "iterations/1#1": "resolved"},
        {"iterations/1#2": "carried", "iterations/1#1": "returned"},
    ]


def test_what_was_resolved_long_ago_is_remembered_and_not_told_again() -> None:
    late, cold = finding("Does not state the 30-day limit."), finding("The tone is cold.")
    told = line([late], [cold], [cold], [late])
    assert states(told[2]) == {"iterations/2#1": "carried"}
    assert [it.id for it in told[2].mended] == ["iterations/1#1"]
    assert states(told[3]) == {"iterations/1#1": "returned", "iterations/2#1": "resolved"}


def test_the_line_is_that_of_parents() -> None:
    cold, long = finding("The tone is cold."), finding("Much too long for a letter.")
    first = NO_ISSUES.next("iterations/1", [cold])
    first.next("iterations/2", [long])
    assert states(first.next("iterations/3", [cold])) == {"iterations/1#1": "carried"}


@pytest.mark.parametrize(("one", "other"), SAME)
def test_a_paraphrase_is_the_same_issue(one: str, other: str) -> None:
    assert states(line([finding(one)], [finding(other)])[1]) == {"iterations/1#1": "carried"}


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_another_problem_of_the_same_kind_is_another_issue(one: str, other: str) -> None:
    told = states(line([finding(one)], [finding(other)])[1])
    assert told == {"iterations/2#1": "new", "iterations/1#1": "resolved"}


def test_the_same_quotation_is_the_same_issue_whatever_is_said_of_it() -> None:
    one = finding("Cold.", quote="as per our  policy")
    other = finding("Nobody talks like this.", quote="as per\nour policy")
    assert states(line([one], [other])[1]) == {"iterations/1#1": "carried"}


def test_the_same_words_about_another_place_are_another_issue() -> None:
    one = finding("This word is misspelt.", quote="recieve")
    other = finding("This word is misspelt.", quote="seperate")
    assert states(line([one], [other])[1])["iterations/2#1"] == "new"


def test_a_sentence_that_was_revised_is_the_same_place() -> None:
    one = finding("This sentence is hard to read.", quote="Refunds, which we pay, take long.")
    other = finding("This sentence is hard to read.", quote="Refunds, that we do pay, take long.")
    assert states(line([one], [other])[1]) == {"iterations/1#1": "carried"}


@pytest.mark.parametrize("change", [{"kind": "tone"}, {"source": "validators/0"}])
def test_another_kind_or_a_validator_says_something_else(change: dict[str, str]) -> None:
    said = finding("Too long for a letter.")
    assert states(line([said], [said.model_copy(update=change)])[1])["iterations/2#1"] == "new"


def test_two_validators_with_the_same_words_are_two_issues() -> None:
    one, two = (finding("must not say 'very'", source=f"validators/{n}") for n in range(2))
    assert states(line([one], [two])[1])["iterations/1#1"] == "resolved"


def test_one_finding_is_one_issue_and_the_surest_goes_first() -> None:
    first = finding("The tone is cold here.", quote="You must.")
    second = finding("The tone is cold here.", quote="Pay now.")
    told = line([first, second], [second])
    assert states(told[1]) == {"iterations/1#2": "carried", "iterations/1#1": "resolved"}


def test_an_issue_speaks_in_its_latest_words() -> None:
    told = line([finding(SAME[0][0])], [finding(SAME[0][1])], [])
    assert told[1].open[0].finding.message == SAME[0][1]
    assert told[2].resolved[0].finding.message == SAME[0][1]


def test_a_flood_of_findings_is_followed_so_far_and_no_further() -> None:
    told = line([finding(f"Flaw {n}.", quote=f"word{n}") for n in range(3 * MOST_ISSUES)], [], [])
    assert (len(told[0].open), len(told[1].resolved), len(told[2].mended)) == (
        MOST_ISSUES,
        MOST_ISSUES,
        MOST_ISSUES,
    )
