"""Several generators: the next one writes when those before it are stuck."""

from collections.abc import Iterable
from itertools import repeat
from typing import Any

import pytest

from app.contract.judgement import Finding, OnFail
from app.contract.requests import RefinementRequest
from app.contract.status import StopReason
from tests.engine.engine_driver import EngineDriver, driver_scoring, request
from tests.engine.test_escape import OTHER, STANDING, TEXT, judging
from tests.engine.test_every_strategy import asked_of
from workers.engine.moves import Ask, Move, ReviewerReply, StepError, about

CHEAP, MIDDLE, STRONG = "a:cheap", "b:middle", "c:strong"


def cascade(*models: str, after: int = 2, **fields: Any) -> RefinementRequest:
    named = {"generator": models, "escalate": "when_stuck", "escalate_after": after}
    return request(**{"models": named, "max_iterations": 9, **fields})


def writers(moves: Iterable[Move[Any]]) -> list[str]:
    """The seat of every call that writes a draft."""
    return [it.seat for it in moves if isinstance(it, Ask) and it.role == "generator"]


FIRST, SECOND, THIRD = "generator", "generator/2", "generator/3"


def test_the_next_one_writes_after_so_many_drafts_that_do_not_pass() -> None:
    model = driver_scoring(0.5, 0.4, 0.9)
    outcome = model.play(cascade(CHEAP, STRONG))
    assert writers(model.moves) == [FIRST, FIRST, SECOND]
    assert outcome.reason is StopReason.THRESHOLD_MET


def test_a_draft_that_passes_is_all_that_the_first_one_has_to_write() -> None:
    model = driver_scoring(0.5, 0.9)
    assert model.play(cascade(CHEAP, STRONG)).passed
    assert writers(model.moves) == [FIRST, FIRST]


def test_a_given_draft_counts_for_nobody() -> None:
    model = driver_scoring(0.3, 0.4, 0.5, 0.9)
    model.play(cascade(CHEAP, STRONG, draft="A text."))
    assert writers(model.moves) == [FIRST, FIRST, SECOND]


def test_a_standstill_hands_over_at_once_and_the_last_one_ends_as_without_a_cascade() -> None:
    model = driver_scoring(0.5, 0.5, 0.5, writer=[TEXT, TEXT, TEXT])
    outcome = model.play(cascade(CHEAP, STRONG, after=5, stop={"escape": False}))
    assert writers(model.moves) == [FIRST, FIRST, SECOND]
    assert outcome.reason is StopReason.STABLE


def test_the_last_one_makes_the_draft_before_a_standstill_ends_it() -> None:
    model = driver_scoring(0.5, 0.5, 0.5, 0.9, writer=[TEXT, TEXT, TEXT, OTHER])
    model.play(cascade(CHEAP, STRONG, after=5))
    assert writers(model.moves) == [FIRST, FIRST, SECOND, SECOND]
    assert model.asked("generator")[-1].prompt.temperature == 1.0


def test_patience_begins_anew_with_each_of_them() -> None:
    model = driver_scoring(0.5, 0.4, 0.3, 0.4, 0.9)
    outcome = model.play(cascade(CHEAP, STRONG, after=9, stop={"patience": 2}))
    assert writers(model.moves) == [FIRST, FIRST, FIRST, SECOND, SECOND]
    assert outcome.reason is StopReason.THRESHOLD_MET


def test_each_of_three_has_its_turn() -> None:
    model = driver_scoring(*(0.1 * number for number in range(1, 7)))
    model.play(cascade(CHEAP, MIDDLE, STRONG, max_iterations=6))
    assert writers(model.moves) == [FIRST, FIRST, SECOND, SECOND, THIRD, THIRD]


def test_samples_of_the_first_one_are_refined_by_the_next() -> None:
    model = driver_scoring(0.4, 0.5, 0.3, 0.6, 0.9)
    model.play(cascade(CHEAP, STRONG, strategy={"kind": "best_of_n", "n": 3, "refine": True}))
    assert writers(model.moves) == [FIRST, FIRST, FIRST, SECOND, SECOND]


def test_every_stage_begins_with_the_first_one() -> None:
    stages = [{"name": name, "max_iterations": 2} for name in ("one", "two")]
    model = driver_scoring(0.5, 0.9, 0.5, 0.9, 0.9)
    model.play(cascade(CHEAP, STRONG, after=1, strategy={"kind": "stepwise", "stages": stages}))
    assert writers(model.moves) == [FIRST, SECOND, FIRST, SECOND]


BY_CRITICS = ["multi_pass", "stepwise", "nested", *STANDING]
"""Strategies whose searches a critic ends."""


@pytest.mark.parametrize("kind", BY_CRITICS)
def test_every_strategy_that_revises_hands_over(kind: str) -> None:
    model = EngineDriver(iter(()), repeat(f"1. {TEXT}\n2. So it is."))
    model.critic = judging(model)
    models = {"generator": [CHEAP, STRONG], "escalate": "when_stuck", "escalate_after": 1}
    fields: dict[str, Any] = {"max_iterations": 9, "models": models}
    if kind == "multi_pass":
        fields["strategy"] = {"passes": [{"focus": "style", "max_iterations": 3}]}
    outcome = model.play(asked_of(kind, **fields))
    assert {*writers(model.moves)} == {FIRST, SECOND}
    assert outcome.best.scored.draft.text


def test_validators_alone_hand_over_too() -> None:
    model = EngineDriver(iter(()), iter(["a", "b", "c", "d"]))
    broken = Finding(source="validators/0", kind="json", message="No.", on_fail=OnFail.VETO)
    model.check = lambda draft: () if draft == "d" else (broken,)
    checked: dict[str, Any] = {
        "strategy": {"kind": "self_correction"},
        "validators": [{"kind": "json"}],
    }
    model.play(cascade(CHEAP, STRONG, criteria=[], **checked))
    assert writers(model.moves) == [FIRST, FIRST, SECOND, SECOND]


def test_a_reviewers_score_hands_over_once() -> None:
    model = driver_scoring(0.5, 0.5, 0.6, writer=[TEXT, TEXT, OTHER])
    words = [ReviewerReply("rate"), ReviewerReply("rate", score=0.4), ReviewerReply("reject")]
    model.reviewer = iter(words)
    model.play(cascade(CHEAP, MIDDLE, STRONG, after=5, review={"when": "each_iteration"}))
    assert writers(model.moves) == [FIRST, FIRST, SECOND]


def test_the_strongest_follows_a_reviewer_at_the_end() -> None:
    model = driver_scoring(0.9, 0.9)
    model.reviewer = iter([ReviewerReply("revise", "Shorter."), ReviewerReply("approve")])
    model.play(cascade(CHEAP, STRONG, review={"when": "before_completion"}))
    assert writers(model.moves) == [FIRST, SECOND]


def test_who_writes_is_in_the_hash_of_a_step_and_nothing_else_of_a_cascade_is() -> None:
    def asked(fields: RefinementRequest) -> EngineDriver:
        model = driver_scoring(0.5, 0.4, 0.6)
        model.play(fields)
        return model

    plain, several = (
        asked(request(max_iterations=3)),
        asked(cascade(CHEAP, STRONG, max_iterations=3)),
    )
    one, other = ([about(it) for it in model.asked("generator")] for model in (plain, several))
    assert one[:2] == other[:2]
    assert one[2] != other[2]


@pytest.mark.parametrize(
    "strategy",
    [
        {"kind": "critique"},
        {"kind": "best_of_n", "n": 3},
        {"kind": "self_consistency"},
        {"kind": "nested", "max_iterations": 1},
    ],
)
def test_a_strategy_that_revises_no_draft_of_another_refuses_it(strategy: dict[str, Any]) -> None:
    draft: dict[str, Any] = {} if strategy["kind"] == "self_consistency" else {"draft": "A text."}
    with pytest.raises(ValueError, match="`escalate` needs a search of at least two drafts"):
        cascade(CHEAP, STRONG, strategy=strategy, **draft)


def lost(at: str, code: str = "unreadable_reply", detail: str = "no text") -> StepError:
    return StepError(code, detail, (at,))


NO_TEXT = [
    ["", "", ""],
    ["I cannot help with that."] * 2,
    [lost("iterations/1/draft")],
]
"""Replies of a writer that are empty, refused, and in no form that its server has."""


@pytest.mark.parametrize("replies", NO_TEXT, ids=["empty", "refused", "unreadable"])
def test_the_next_one_writes_where_no_reply_can_be_used_and_goes_on(replies: list[Any]) -> None:
    model = driver_scoring(0.5, 0.9, writer=[*replies, TEXT, OTHER])
    outcome = model.play(cascade(CHEAP, STRONG))
    assert outcome.reason is StopReason.THRESHOLD_MET
    assert writers(model.moves) == [FIRST] * len(replies) + [SECOND, SECOND]
    assert "iterations/1/draft/generator/2/draft" in model.paths
    assert "iterations/2/revise" in model.paths


def test_a_revision_that_fails_is_made_by_the_next_one_from_the_same_draft() -> None:
    refused = lost("iterations/2/revise", "content_filtered")
    model = driver_scoring(0.5, 0.9, writer=[TEXT, refused, OTHER])
    model.play(cascade(CHEAP, STRONG))
    assert writers(model.moves) == [FIRST, FIRST, SECOND]
    assert "iterations/2/revise/generator/2/revise" in model.paths
    assert TEXT in model.asked("generator")[-1].prompt.user


def test_it_fails_as_the_last_one_does_and_at_once_where_another_model_is_no_help() -> None:
    first, second = "iterations/1/draft", "iterations/1/draft/generator/2/draft"
    for writer, seats in (
        ([lost(first), lost(second, detail="b")], [FIRST, SECOND]),
        ([lost(first, "unauthorized", "b")], [FIRST]),
    ):
        model = driver_scoring(0.5, writer=writer)
        with pytest.raises(StepError, match="b"):
            model.play(cascade(CHEAP, STRONG))
        assert writers(model.moves) == seats


def test_each_sample_without_a_usable_reply_is_written_by_the_next_one() -> None:
    writer: list[Any] = [TEXT, lost("iterations/2/draft"), OTHER, "A third text."]
    model = driver_scoring(0.4, 0.5, 0.9, writer=writer)
    model.play(cascade(CHEAP, STRONG, strategy={"kind": "best_of_n", "n": 2, "refine": True}))
    assert writers(model.moves) == [FIRST, FIRST, SECOND, SECOND]
