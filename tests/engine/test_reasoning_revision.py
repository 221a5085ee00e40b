"""The first faulty step is found, and only it and what follows is redone."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.contract.judgement import Finding, FindingsReply, OnFail
from app.contract.requests import RefinementRequest
from app.contract.status import StopReason
from tests.engine.engine_driver import EngineDriver, Refusal, driver_scoring, request
from tests.engine.scripted_replies import steps
from workers.engine.moves import Judged, ReviewerReply, Scored, StepError, Stopped

FIRST = "Let us see.\n1. Two and two are four.\n2. Four and one are six.\n3. So it is six."
REDONE = "2. Four and one are five.\n3. So it is five."
MENDED = "Let us see.\n1. Two and two are four.\n" + REDONE
FAULTY = steps(True, False)
RIGHT = steps(True, True, True)


def reasoning(**fields: object) -> RefinementRequest:
    return request(**{"strategy": {"kind": "reasoning_revision"}, **fields})


def model(*critic: float | str | Refusal, writer: list[str | Refusal]) -> EngineDriver:
    return driver_scoring(*critic, writer=writer)


def judged(played: EngineDriver) -> list[Scored]:
    return [move.judgement.scored for move in played.moves if isinstance(move, Judged)]


def test_a_faulty_step_and_what_follows_is_redone_and_the_rest_stays() -> None:
    played = model(0.9, FAULTY, 0.9, RIGHT, writer=[FIRST, REDONE])
    outcome = played.play(reasoning())
    best = outcome.best.scored.draft
    assert (best.text, best.parent, best.is_reply) == (MENDED, "iterations/1", False)
    assert (outcome.reason, outcome.passed) == (StopReason.THRESHOLD_MET, True)
    assert played.paths == [
        "iterations/1/draft",
        "iterations/1/critique",
        "iterations/1/verify",
        "iterations/1",
        "iterations/2/revise",
        "iterations/2/critique",
        "iterations/2/verify",
        "iterations/2",
    ]


def test_the_faulty_step_is_a_finding_that_keeps_the_chain_from_passing() -> None:
    played = model(0.9, FAULTY, 0.9, RIGHT, writer=[FIRST, REDONE])
    played.play(reasoning())
    (found,) = judged(played)[0].findings
    assert (found.source, found.kind, found.on_fail) == ("verification", "step 2", OnFail.VETO)
    assert found.message == "It does not follow."
    assert found.span is not None
    assert FIRST[found.span.start : found.span.end] == "2. Four and one are six.\n"
    asked = played.asked("generator")[1].prompt.user
    assert "It does not follow." in asked
    assert "Begin with step 2." in asked
    assert "1. Two and two are four." in asked.partition("Steps to do anew")[0]


def test_the_steps_that_are_checked_are_those_that_validators_have_corrected() -> None:
    played = model(0.9, FAULTY, 0.9, RIGHT, writer=[FIRST.replace("Two", "The the two"), REDONE])
    played.check = lambda text: FindingsReply(text=text.replace("The the two", "Two"))
    fixing = {"kind": "spelling", "on_fail": "fix"}
    assert played.play(reasoning(validators=[fixing])).best.scored.draft.text == MENDED
    (found,) = judged(played)[0].findings
    assert found.span is not None
    assert FIRST[found.span.start : found.span.end] == "2. Four and one are six.\n"


def test_the_model_that_checks_the_steps_sees_no_score_and_no_critique() -> None:
    played = model(0.4321, RIGHT, 0.9, RIGHT, writer=[FIRST, MENDED])
    played.play(reasoning())
    check = next(it for it in played.asked("critic") if it.path.endswith("verify"))
    assert "0.4321" not in check.prompt.user
    assert "quality" not in check.prompt.user


WORDS = st.text("abc ,;\u00e4\t", min_size=1, max_size=15).map(str.strip).filter(bool)


@given(
    st.text("xyz ", max_size=10).map(lambda it: it and f"{it} five is five is five is five\n"),
    st.lists(WORDS, min_size=1, max_size=7),
    st.lists(WORDS, min_size=1, max_size=4),
    st.data(),
)
def test_the_steps_before_the_faulty_one_stay_byte_for_byte(
    preamble: str, said: list[str], anew: list[str], data: st.DataObject
) -> None:
    faulty = data.draw(st.integers(1, len(said)))
    numbered = [f"{n}. {text}\n\n" for n, text in enumerate(said, 1)]
    draft = (preamble + "".join(numbered)).strip()
    redone = "\n".join(f"{n}. {text}." for n, text in enumerate(anew, faulty))
    verdict_on_steps = steps(*[True] * (faulty - 1), False)
    played = model(0.5, verdict_on_steps, 0.4, steps(False), writer=[draft, f"Sure:\n{redone}"])
    played.play(reasoning(max_iterations=2))
    before, after = (it.draft.text for it in judged(played))
    prefix = "".join([preamble, *numbered[: faulty - 1]]).lstrip()
    assert before.startswith(prefix)
    assert after == prefix + redone


def test_steps_before_the_one_asked_for_are_dropped_from_the_reply() -> None:
    again = "1. Two and two are five!\n" + REDONE
    outcome = model(0.9, FAULTY, 0.9, RIGHT, writer=[FIRST, again]).play(reasoning())
    assert outcome.best.scored.draft.text == MENDED


def test_redone_steps_end_their_lines_as_the_draft_does() -> None:
    chain = FIRST.replace("\n", "\r\n")
    played = model(0.5, FAULTY, 0.9, RIGHT, writer=[REDONE])
    outcome = played.play(reasoning(draft=chain))
    assert outcome.best.scored.draft.text == MENDED.replace("\n", "\r\n")


def test_a_chain_without_a_fault_that_fails_otherwise_is_redone_from_step_one() -> None:
    played = model(0.5, RIGHT, 0.9, RIGHT, writer=[FIRST, "1. Five.\n2. So it is.\n3. Done."])
    outcome = played.play(reasoning())
    assert outcome.best.scored.draft.text == "Let us see.\n1. Five.\n2. So it is.\n3. Done."
    asked = played.asked("generator")[1].prompt.user
    assert "Begin with step 1." in asked
    assert "quality: so (not met yet)" in asked


BAD_CHAINS = ["No steps.", "1. One.\n3. Three.", "2. Two."]
BAD_REDONE = ["1. One.", "2. Two.\n4. Four.", "3. Three.", "Nothing."]


@pytest.mark.parametrize("bad", BAD_CHAINS)
def test_a_first_draft_that_does_not_count_is_asked_for_again(bad: str) -> None:
    played = model(0.9, RIGHT, writer=[bad, FIRST])
    assert played.play(reasoning()).passed
    assert "iterations/1/draft/again/1" in played.paths
    fails(model(writer=[bad] * 3), "unreadable_steps")


@pytest.mark.parametrize("bad", BAD_REDONE)
def test_redone_steps_that_do_not_count_on_are_asked_for_again(bad: str) -> None:
    played = model(0.9, FAULTY, 0.9, RIGHT, writer=[FIRST, bad, REDONE])
    assert played.play(reasoning()).best.scored.draft.text == MENDED
    fails(model(0.9, FAULTY, writer=[FIRST, bad, bad, bad]), "unreadable_steps")


def numbered(*said: tuple[int, bool]) -> str:
    return json.dumps({"steps": [{"step": n, "why": "", "correct": it} for n, it in said]})


BAD_VERDICTS = [
    "no",
    numbered(),
    steps(True, True),
    steps(True, True, True, True),
    steps(True, True, True, False),
    numbered((2, False)),
    numbered((0, False)),
    numbered((1, True), (3, False)),
    numbered((2, True), (1, True), (3, True)),
]


@pytest.mark.parametrize("bad", BAD_VERDICTS)
def test_a_verdict_that_leaves_a_step_out_is_asked_for_again_and_then_proves_nothing(
    bad: str,
) -> None:
    assert model(0.9, bad, RIGHT, writer=[FIRST]).play(reasoning()).passed
    outcome = model(0.9, bad, bad, bad, writer=[FIRST]).play(reasoning())
    assert (outcome.passed, outcome.reason) == (False, StopReason.INCOMPLETE)
    assert [it.code for it in outcome.best.scored.caveats] == ["unverified"]


def fails(played: EngineDriver, code: str) -> None:
    with pytest.raises(StepError) as failed:
        played.play(reasoning())
    assert failed.value.code == code


def test_a_clients_chain_is_checked_first() -> None:
    played = model(0.9, FAULTY, 0.9, RIGHT, writer=[REDONE])
    outcome = played.play(reasoning(draft=FIRST))
    assert (outcome.best.path, outcome.best.scored.draft.text) == ("iterations/1", MENDED)


def test_a_clients_draft_without_steps_is_refused() -> None:
    with pytest.raises(ValidationError, match="no line begins with"):
        reasoning(draft="It is five.")


def test_a_validator_alone_sends_the_whole_chain_back() -> None:
    veto = Finding(source="validators/0", kind="length", message="long", on_fail=OnFail.VETO)
    played = model(0.9, RIGHT, 0.9, steps(True), writer=[FIRST, "1. Five."])
    played.check = lambda draft: (veto,) if "six" in draft else ()
    outcome = played.play(reasoning(validators=[{"kind": "length", "max_words": 9}]))
    assert outcome.best.scored.draft.text == "Let us see.\n1. Five."


def test_stopped_while_checking_the_chain_is_kept_and_does_not_pass() -> None:
    outcome = model(0.9, Stopped(), writer=[FIRST, Stopped()]).play(reasoning())
    assert (outcome.best.scored.score, outcome.passed, outcome.reason) == (0.9, False, None)


def test_the_cap_holds_when_every_chain_has_a_fault() -> None:
    critic = [it for _ in range(3) for it in (0.9, FAULTY)]
    played = model(*critic, writer=[FIRST, REDONE, "2. Other words altogether.\n3. Done now."])
    outcome = played.play(reasoning(max_iterations=2, stop={"max_similarity": 1}))
    assert (outcome.reason, outcome.passed) == (StopReason.MAX_ITERATIONS, False)
    assert len(played.asked("generator")) == 2


@pytest.mark.parametrize("when", ["each_iteration", "before_completion"])
def test_what_a_reviewer_asks_for_is_done_from_the_faulty_step_on(when: str) -> None:
    played = model(0.5, FAULTY, 0.9, RIGHT, writer=[FIRST, REDONE])
    played.reviewer = iter(
        [ReviewerReply("revise", feedback="Count again."), ReviewerReply("approve")]
    )
    outcome = played.play(reasoning(review={"when": when}, max_iterations=1))
    assert (outcome.best.scored.draft.text, outcome.reason) == (MENDED, StopReason.APPROVED)
    assert "Count again." in played.asked("generator")[1].prompt.user


def test_a_reviewers_text_without_steps_does_not_pass_and_is_done_anew_as_a_chain() -> None:
    played = model(0.5, FAULTY, 0.9, 0.9, RIGHT, writer=[FIRST, MENDED])
    given = [
        ReviewerReply("replace", draft="It is five."),
        ReviewerReply("rate", score=0.9),
        ReviewerReply("approve"),
    ]
    played.reviewer = iter(given)
    outcome = played.play(reasoning(review={"when": "each_iteration"}))
    given_text = next(it for it in judged(played) if it.draft.text == "It is five.")
    assert (given_text.valid, given_text.findings[0].kind) == (False, "steps")
    assert outcome.best.scored.draft.text == MENDED.removeprefix("Let us see.\n")


def test_a_changed_threshold_reaches_the_next_chain() -> None:
    played = model(0.6, RIGHT, writer=[FIRST])
    played.change = lambda judged, limits: limits.model_copy(update={"threshold": 0.5})
    assert played.play(reasoning()).passed


def test_a_stop_that_leaves_the_last_chain_unverified_is_why_it_ended() -> None:
    outcome = model(0.9, Stopped(), writer=[FIRST]).play(reasoning(max_iterations=1))
    assert (outcome.reason, outcome.passed) == (None, False)


def test_a_wrong_equation_makes_its_step_faulty_whatever_the_critic_says() -> None:
    draft = "1. It is 2 + 2 = 4.\n2. Twice: 4 * 2 = 9.\n3. Less one: 9 - 1 = 7."
    redone = "2. Twice: 4 * 2 = 8.\n3. Less one: 8 - 1 = 7."
    played = model(
        0.9, steps(True, True, True), 0.9, steps(True, True, True), writer=[draft, redone]
    )
    outcome = played.play(reasoning())
    assert outcome.best.scored.draft.text == f"1. It is 2 + 2 = 4.\n{redone}"
    (finding,) = judged(played)[0].findings
    assert (finding.source, finding.kind) == ("calculator", "step 2")
    assert (finding.message, finding.fix) == (
        "4 * 2 is 8, not 9",
        "calculate anew from 4 * 2 = 8",
    )
    told = played.asked("critic")[1].prompt.user
    assert "step 1: 2 + 2 = 4\nstep 2: 4 * 2 is 8, not 9\nstep 3: 9 - 1 is 8, not 7" in told


def test_a_step_that_the_critic_finds_earlier_comes_first() -> None:
    draft = "1. Two is three.\n2. Twice: 4 * 2 = 9."
    played = model(0.9, steps(False), 0.9, steps(True, True), writer=[draft, "1. A.\n2. B."])
    played.play(reasoning())
    (finding,) = judged(played)[0].findings
    assert (finding.source, finding.kind) == ("verification", "step 1")


def test_nothing_is_calculated_when_it_is_off() -> None:
    body = reasoning(strategy={"kind": "reasoning_revision", "calculator": False})
    played = model(0.9, steps(True), writer=["1. It is 2 + 2 = 5."])
    outcome = played.play(body)
    assert outcome.passed
