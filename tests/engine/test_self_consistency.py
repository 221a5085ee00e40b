"""Several samples at once, and the answer that most of them give."""

import json
from collections.abc import Iterable
from itertools import product

import pytest
from pydantic import ValidationError

from app.contract.judgement import Finding, OnFail
from app.contract.requests import RefinementRequest
from app.contract.status import StopReason
from tests.engine.engine_driver import EngineDriver, Refusal, driver_scoring, request
from tests.engine.scripted_replies import replied
from workers.engine.asking import question
from workers.engine.moves import Judged, ReviewerReply, Scored, StepError, Stopped
from workers.engine.pipeline import task_of
from workers.engine.prompts import Solve
from workers.engine.replies.reader import Unreadable
from workers.engine.strategies.self_consistency import last_marked_text

GONE = StepError("model_unavailable", "gone")
ANSWER = r"(?i)answer: (.+)"


def consistent(n: int, **fields: object) -> RefinementRequest:
    strategy: dict[str, object] = {"kind": "self_consistency", "n": n}
    strategy |= {
        name: fields.pop(name)
        for name in ("vote", "answer", "weigh", "stop_early")
        if name in fields
    }
    return request(**{"strategy": strategy, "max_iterations": 20, **fields})


def drawing(*samples: str | Refusal, votes: Iterable[str | Refusal] = ()) -> EngineDriver:
    return driver_scoring(*votes, writer=samples)


def judged(model: EngineDriver) -> list[Scored]:
    return [move.judgement.scored for move in model.moves if isinstance(move, Judged)]


def grouped(*groups: list[int]) -> str:
    return json.dumps({"groups": groups})


def test_the_answer_that_most_samples_give_wins_and_says_how_many() -> None:
    model = drawing("41", "42", " 42.0", "**42**", "7")
    outcome = model.play(consistent(5))
    assert (outcome.best.path, outcome.best.scored.score) == ("iterations/2", 0.6)
    assert (outcome.score_from, outcome.reason) == ("agreement", StopReason.COMPLETED)
    assert [it.score for it in judged(model)] == [0.2, 0.6, 0.6, 0.6, 0.2]
    (score,) = outcome.best.scored.scores
    assert (score.criterion, score.reason) == ("agreement", "3 of 5 samples: 42")
    assert model.paths == [
        *(f"iterations/{n}/draft" for n in range(1, 6)),
        *(f"iterations/{n}" for n in range(1, 6)),
    ]


def test_no_critic_is_asked_and_all_samples_get_the_same_prompt() -> None:
    model = drawing("1", "2")
    model.play(consistent(2))
    assert not model.asked("critic")
    assert len({question.prompt for question in model.asked("generator")}) == 1


def test_of_equal_groups_the_one_seen_first_wins() -> None:
    outcome = drawing("a", "b", "b", "a").play(consistent(4))
    assert (outcome.best.path, outcome.best.scored.score) == ("iterations/1", 0.5)


def test_enough_agreement_passes() -> None:
    outcome = drawing("a", "b", "a").play(consistent(3, threshold=0.6))
    assert (outcome.reason, outcome.passed) == (StopReason.THRESHOLD_MET, True)


def test_no_sample_is_drawn_that_could_change_neither_the_answer_nor_whether_it_passes() -> None:
    model = drawing("a", "a", "a", "b", "a")
    outcome = model.play(consistent(5, threshold=0.6))
    assert (outcome.best.scored.score, outcome.reason) == (1, StopReason.THRESHOLD_MET)
    assert outcome.best.scored.scores[0].reason == "3 of 3 samples (2 more could not change it): a"
    assert len(model.asked("generator")) == 3
    split = drawing("a", "b", "a", "c", "a")
    assert split.play(consistent(5, threshold=0.6)).best.scored.score == 0.6
    assert len(split.asked("generator")) == 5
    model = drawing("a", "a", "a", "b", "a")
    assert model.play(consistent(5, threshold=0.6, stop_early=False)).best.scored.score == 0.8


@pytest.mark.parametrize("threshold", [0, 0.3, 0.5, 0.6, 0.75, 0.8, 1])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_stopping_early_changes_neither_answer_nor_verdict(n: int, threshold: float) -> None:
    for answers in product("abc", repeat=n):
        early = drawing(*answers).play(consistent(n, threshold=threshold))
        whole = drawing(*answers).play(consistent(n, threshold=threshold, stop_early=False))
        assert early.best.scored.draft == whole.best.scored.draft, answers
        assert early.passed == whole.passed, answers


def test_samples_that_fail_after_others_leave_those() -> None:
    model = drawing("a", "b", GONE, GONE)
    outcome = model.play(consistent(3, threshold=0.6))
    assert outcome.best.scored.scores[0].reason == "1 of 2 samples (1 more could not be made): a"
    assert [it.path for it in outcome.caveats] == ["iterations/3"]


def thinking(*samples: tuple[str, str]) -> tuple[str, ...]:
    return tuple(f"{why} <answer>{answer}</answer>" for why, answer in samples)


def test_a_critic_that_reads_the_reasoning_can_outweigh_the_majority() -> None:
    samples = thinking(("2 + 2 is 5.", "5"), ("Guessed.", "5"), ("2 + 2 is 4.", "4"))
    weights = json.dumps({"a1": {"why": "No.", "score": "10%"}, "a2": {"why": "Yes.", "score": 1}})
    model = drawing(*samples, votes=[weights])
    outcome = model.play(consistent(3, weigh=True, threshold=0.8))
    assert outcome.best.scored.draft.text == "4"
    assert outcome.best.scored.score == 0.833333
    assert outcome.passed
    assert outcome.best.scored.scores[0].reason == "1 of 3 samples, thought right with 1.00: 4"
    (asked,) = model.asked("critic")
    assert "2 + 2 is 5." in asked.prompt.user
    assert "2 + 2 is 4." in asked.prompt.user
    assert "Guessed." not in asked.prompt.user


def test_answers_that_all_agree_are_not_weighed() -> None:
    model = drawing(*thinking(("", "4"), ("", "4.0")))
    assert model.play(consistent(2, weigh=True)).best.scored.score == 1
    assert not model.asked("critic")


@pytest.mark.parametrize(
    "bad", ['{"a1": {"score": 1}}', '{"a1": {"score": 7}, "a2": {"score": 1}}']
)
def test_weights_that_leave_out_an_answer_are_asked_for_again(bad: str) -> None:
    good = '{"a1": {"score": 0}, "a2": {"score": 0}}'
    model = drawing("a", "b", "b", votes=[bad, good])
    outcome = model.play(consistent(3, weigh=True))
    assert outcome.best.scored.draft.text == "b"  # nothing is thought right: the votes count
    assert len(model.asked("critic")) == 2


def test_stopped_before_the_weights_the_votes_count() -> None:
    model = drawing("a", "b", "b", votes=[Stopped()])
    assert model.play(consistent(3, weigh=True)).best.scored.draft.text == "b"


def test_the_answer_is_taken_out_of_the_sample_and_the_whole_sample_is_returned() -> None:
    samples = ["Since 2 + 2 = 4. Answer: 4", "It is five.\nAnswer: 5", "Clearly.\nanswer: 4.0"]
    outcome = drawing(*samples).play(consistent(3, answer=ANSWER))
    assert outcome.best.scored.draft.text == samples[0]
    assert outcome.best.scored.scores[0].reason == "2 of 3 samples: 4"


def test_a_sample_without_an_answer_has_no_vote_and_cannot_pass() -> None:
    model = drawing("I do not know.", "I do not know.", "Answer: 4")
    outcome = model.play(consistent(3, answer=ANSWER, threshold=0.3))
    assert (outcome.best.path, outcome.passed) == ("iterations/3", True)
    assert [(it.valid, it.score) for it in judged(model)] == [
        (False, 0),
        (False, 0),
        (True, 0.333333),
    ]
    assert judged(model)[0].findings[0].message == "no answer found in the draft"


def test_a_sample_that_a_validator_vetoes_has_no_vote() -> None:
    veto = Finding(source="validators/0", kind="length", message="no", on_fail=OnFail.VETO)
    warn = veto.model_copy(update={"on_fail": OnFail.WARN})
    model = drawing("bad", "bad", "good")
    model.check = lambda draft: (veto,) if draft == "bad" else (warn,)
    outcome = model.play(consistent(3, validators=[{"kind": "length", "max_words": 9}]))
    assert (outcome.best.path, outcome.best.scored.score) == ("iterations/3", 0.333333)
    assert "iterations/1/check" in model.paths


@pytest.mark.parametrize("stop_early", [True, False])
def test_findings_that_are_no_veto_do_not_outvote_the_majority(stop_early: bool) -> None:
    light = Finding(source="validators/0", kind="length", message="no", on_fail=OnFail.REVISE)
    model = drawing("It is 4.", "It is 4.", "4.0", "It is 4.", "5")
    model.check = lambda draft: (light,) if "It" in draft else ()
    asked = {"answer": r"([45])", "threshold": 0.6, "stop_early": stop_early}
    outcome = model.play(consistent(5, validators=[{"kind": "length", "max_words": 2}], **asked))
    assert (outcome.best.path, outcome.passed) == ("iterations/1", True)


def test_the_share_is_of_the_samples_made_and_those_missing_are_told() -> None:
    model = drawing("a", GONE, "a", "b")
    outcome = model.play(consistent(4))
    assert outcome.best.scored.score == 0.666667
    reason = outcome.best.scored.scores[0].reason
    assert reason == "2 of 3 samples (1 more could not be made): a"
    assert [move.path for move in model.moves if isinstance(move, Judged)] == [
        "iterations/1", "iterations/3", "iterations/4",
    ]  # fmt: skip


def test_a_single_sample_has_no_other_to_agree_with() -> None:
    outcome = drawing("a", Stopped(), Stopped()).play(consistent(3, threshold=0.0))
    assert (outcome.best.scored.score, outcome.passed) == (None, False)
    assert outcome.best.scored.draft.text == "a"


def test_a_sample_that_was_refused_from_outside_keeps_the_reason_of_the_refusal() -> None:
    outcome = drawing("a", Stopped(), "a", "b").play(consistent(4))
    assert (outcome.best.scored.score, outcome.reason) == (0.666667, None)


def test_without_any_sample_the_first_failure_is_told() -> None:
    with pytest.raises(StepError) as failed:
        drawing(GONE, Stopped()).play(consistent(2))
    assert failed.value.code == "model_unavailable"


def test_a_critic_groups_answers_in_prose() -> None:
    model = drawing("Ship it.", "We should wait.", "Yes, ship.", votes=[grouped([3, 1], [2])])
    outcome = model.play(consistent(3, vote="judge"))
    assert (outcome.best.path, outcome.best.scored.score) == ("iterations/1", 0.666667)
    (vote,) = model.asked("critic")
    assert vote.path == "vote"
    for part in ("Explain refunds.", "Ship it.", "We should wait.", "Yes, ship."):
        assert part in vote.prompt.user


def test_a_vote_is_asked_among_those_alone_that_have_one() -> None:
    samples = ["Answer: ship", "No idea.", "Answer: wait", "Answer: go ahead"]
    model = drawing(*samples, votes=[grouped([2], [1, 3])])
    outcome = model.play(consistent(4, vote="judge", answer=ANSWER))
    assert [it.score for it in judged(model)] == [0.5, 0.0, 0.25, 0.5]
    assert outcome.best.path == "iterations/1"
    assert "No idea." not in model.asked("critic")[0].prompt.user


BAD = ["no", grouped([1, 2]), grouped([1, 2], [2, 3]), grouped([1, 2, 3, 4]), grouped([0, 1, 2])]


@pytest.mark.parametrize("bad", BAD)
def test_groups_that_do_not_hold_every_number_once_are_asked_for_again(bad: str) -> None:
    votes = [bad, grouped([1], [2, 3])]
    model = drawing("a", "b", "c", votes=votes)
    assert model.play(consistent(3, vote="judge")).best.path == "iterations/2"
    assert "vote/again/1" in model.paths
    with pytest.raises(StepError) as failed:
        drawing("a", "b", "c", votes=[bad] * 3).play(consistent(3, vote="judge"))
    assert failed.value.code == "unreadable_vote"


def test_stopped_before_the_vote_the_answers_are_compared_exactly() -> None:
    outcome = drawing("a", "b", "b", votes=[Stopped()]).play(consistent(3, vote="judge"))
    assert (outcome.best.path, outcome.best.scored.score) == ("iterations/2", 0.666667)


@pytest.mark.parametrize("when", ["each_iteration", "before_completion"])
def test_what_a_reviewer_asks_for_is_validated_and_has_no_share(when: str) -> None:
    model = drawing("a", "b", "b", "c")
    model.reviewer = iter([ReviewerReply("revise", feedback="Say c."), ReviewerReply("approve")])
    outcome = model.play(consistent(3, review={"when": when}))
    assert (outcome.best.scored.draft.text, outcome.best.scored.score) == ("c", None)
    assert (outcome.score_from, outcome.reason) == ("agreement", StopReason.APPROVED)
    assert not model.asked("critic")


def test_a_changed_threshold_is_the_one_that_counts() -> None:
    model = drawing("a", "b", "a")
    model.change = lambda judged, limits: limits.model_copy(update={"threshold": 0.5})
    assert model.play(consistent(3, threshold=0.9)).passed


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"max_iterations": 4}, "must be at least 5"),
        ({"draft": "42"}, "`draft` is not supported"),
        ({"criteria": [{"name": "quality"}]}, "criteria are not supported"),
        ({"answer": "no group"}, "exactly one group, got 0"),
    ],
)
def test_what_cannot_be_sampled_is_refused(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        consistent(5, **fields)


MARKED = [
    ("Six times seven. <answer>42</answer>", "42"),
    ("<answer>41</answer>? No.\n<answer>\n42\n</answer>\n", "42"),
    ("I write <answer> at the end. <answer>One.\n\nTwo.</answer> Done.", "One.\n\nTwo."),
]


@pytest.mark.parametrize(("reply", "text"), MARKED)
def test_the_text_is_what_stands_between_the_last_marks(reply: str, text: str) -> None:
    outcome = drawing(reply, reply).play(consistent(2))
    draft = outcome.best.scored.draft
    assert draft.text == text
    assert not draft.is_reply, "the journal has the text beside the reply"


@pytest.mark.parametrize("reply", ["42", "<answer>42", "42</answer>", "<answer> \n</answer>"])
def test_a_reply_without_a_marked_answer_is_asked_for_again(reply: str) -> None:
    asked = question("draft", "generator", Solve(task_of(consistent(2), "482913")))
    assert asked.prompt.user.count("<answer>") == 1
    with pytest.raises(Unreadable):
        last_marked_text(replied(reply))


def test_a_sample_may_reason_and_is_told_how_its_answer_is_found() -> None:
    model = drawing("Answer: 1", "Answer: 2")
    model.play(consistent(2, answer=ANSWER))
    user = model.asked("generator")[0].prompt.user
    assert "First reason, step by step" in user
    assert ANSWER in user
