"""Facts are checked by answers that cannot see the draft."""

import json

import pytest

from app.contract.calls import at_most
from app.contract.judgement import Finding, FindingsReply, OnFail
from app.contract.requests import RefinementRequest
from app.contract.status import StopReason
from tests.engine.engine_driver import EngineDriver, driver_scoring, request
from tests.engine.scripted_replies import contradictions, look_ups, questions
from workers.engine.moves import Call, Check, Judged, Scored, StepError, Stopped, ToolResult

WRONG = "Refunds take 30 days. Shops pay cash."
RIGHT = "Refunds take 14 days. Shops pay cash."
DAYS = ("take 30 days", "How long does a refund take?")
CASH = ("pay cash", "How do shops pay?")
NONE = contradictions()
GONE = StepError("model_unavailable", "gone")


def verifying(**fields: object) -> RefinementRequest:
    return request(**{"strategy": {"kind": "chain_of_verification"}, **fields})


def caught() -> EngineDriver:
    """A wrong draft that the critic likes, and a right one."""
    first = (0.9, questions(DAYS, CASH), "14 days", "unknown", contradictions((DAYS[0], 1)))
    second = (0.9, questions(("take 14 days", DAYS[1])), "14 days", NONE)
    return driver_scoring(*first, *second, writer=[WRONG, RIGHT])


def judged(model: EngineDriver) -> list[Scored]:
    return [move.judgement.scored for move in model.moves if isinstance(move, Judged)]


def test_a_contradicted_draft_does_not_pass_and_is_revised_from_the_contradictions() -> None:
    model = caught()
    outcome = model.play(verifying())
    assert (outcome.best.scored.draft.text, outcome.passed) == (RIGHT, True)
    assert outcome.reason is StopReason.THRESHOLD_MET
    assert model.paths == [
        "iterations/1/draft",
        "iterations/1/critique",
        "iterations/1/verify/questions",
        "iterations/1/verify/answers/1",
        "iterations/1/verify/answers/2",
        "iterations/1/verify/contradictions",
        "iterations/1",
        "iterations/2/revise",
        "iterations/2/critique",
        "iterations/2/verify/questions",
        "iterations/2/verify/answers/1",
        "iterations/2/verify/contradictions",
        "iterations/2",
    ]


def test_the_finding_says_where_what_and_how_to_mend_it() -> None:
    model = caught()
    model.play(verifying())
    (found,) = judged(model)[0].findings
    assert (found.source, found.kind, found.on_fail) == (
        "verification", "contradiction", OnFail.VETO,
    )  # fmt: skip
    assert found.quote == "take 30 days"
    assert found.span is not None
    assert WRONG[found.span.start : found.span.end] == found.quote
    assert 'answered "14 days"' in found.message
    revision = model.asked("generator")[1].prompt.user
    assert found.message in revision
    assert "Say it right." in revision


def test_the_draft_that_is_verified_is_the_one_that_validators_have_corrected() -> None:
    model = caught()
    model.writer = iter([f"The the shops. {WRONG}", RIGHT])
    model.check = lambda text: FindingsReply(text=text.removeprefix("The the shops. "))
    model.play(verifying(validators=[{"kind": "spelling", "on_fail": "fix"}]))
    (found,) = judged(model)[0].findings
    assert found.span is not None
    assert WRONG[found.span.start : found.span.end] == found.quote == "take 30 days"


def test_the_answering_model_sees_task_context_and_question_and_nothing_of_the_draft() -> None:
    model = caught()
    context = [{"name": "policy.md", "text": "Fourteen days."}]
    model.play(verifying(context=context, criteria=[{"name": "quality", "description": "It is."}]))
    answering = [it for it in model.asked("critic") if "/answers/" in it.path]
    assert len(answering) == 3
    for ask in answering:
        assert "Explain refunds." in ask.prompt.user
        assert "Fourteen days." in ask.prompt.user
        for hidden in (WRONG, RIGHT, *(claim for claim, _ in (DAYS, CASH)), "It is."):
            assert hidden not in ask.prompt.user
    assert DAYS[1] in answering[0].prompt.user


def test_a_clients_draft_is_verified_first_and_hidden_as_well() -> None:
    model = driver_scoring(0.9, questions(DAYS), "30 days", NONE)
    outcome = model.play(verifying(draft=WRONG))
    assert (outcome.best.path, outcome.passed) == ("iterations/0", True)
    (answering,) = [it for it in model.asked("critic") if "/answers/" in it.path]
    assert WRONG not in answering.prompt.user + repr(answering.prompt_request)


def test_an_unknown_answer_contradicts_nothing_and_is_said() -> None:
    model = driver_scoring(0.9, questions(DAYS, CASH), " Unknown. ", "cash", NONE, writer=[WRONG])
    outcome = model.play(verifying())
    assert outcome.passed
    (told,) = outcome.best.scored.caveats
    assert (told.code, told.path) == ("item_dropped", "verify/answers/1")
    assert DAYS[1] in told.detail


def test_a_draft_of_which_every_answer_is_unknown_does_not_pass_and_is_not_revised() -> None:
    model = driver_scoring(0.9, questions(DAYS), " Unknown. ", writer=[WRONG])
    outcome = model.play(verifying())
    assert (outcome.passed, outcome.reason) == (False, StopReason.INCOMPLETE)
    (told,) = outcome.best.scored.caveats
    assert (told.code, told.path) == ("unverified", "verify/answers")
    assert "iterations/1/verify/contradictions" not in model.paths


def test_an_unverified_draft_passes_if_the_request_accepts_it() -> None:
    model = driver_scoring(0.9, questions(DAYS), " Unknown. ", writer=[WRONG])
    outcome = model.play(verifying(accept=["unverified"]))
    assert (outcome.passed, outcome.reason) == (True, StopReason.THRESHOLD_MET)
    assert [it.code for it in outcome.best.scored.caveats] == ["unverified"]


def test_an_unverified_draft_that_is_not_good_enough_is_revised() -> None:
    first = (0.5, questions(DAYS), "unknown")
    second = (0.9, questions(("take 14 days", DAYS[1])), "14 days", NONE)
    outcome = driver_scoring(*first, *second, writer=[WRONG, RIGHT]).play(verifying())
    assert (outcome.best.path, outcome.passed) == ("iterations/2", True)


def test_an_answer_that_cannot_be_had_is_left_out() -> None:
    model = driver_scoring(0.9, questions(DAYS, CASH), GONE, "cash", NONE, writer=[WRONG])
    assert model.play(verifying()).passed
    (asked,) = [it for it in model.asked("critic") if it.path.endswith("contradictions")]
    assert CASH[1] in asked.prompt.user
    assert DAYS[1] not in asked.prompt.user


def test_without_a_question_a_draft_is_not_verified_however_often_it_is_asked_for() -> None:
    model = driver_scoring(0.9, *[questions()] * 3, writer=["Be kind."])
    is_unproven(model)
    (told, _) = [it for it in model.asked("critic") if "/questions/again/" in it.path]
    assert "it asks no question" in told.prompt.user


def test_questions_that_are_asked_at_last_verify_a_draft() -> None:
    model = driver_scoring(0.9, questions(), questions(DAYS), "30 days", NONE, writer=[WRONG])
    assert model.play(verifying()).passed


def test_no_more_questions_are_answered_than_allowed() -> None:
    strategy = {"kind": "chain_of_verification", "max_questions": 1}
    model = driver_scoring(0.9, questions(DAYS, CASH), "30 days", NONE, writer=[WRONG])
    model.play(verifying(strategy=strategy))
    assert sum("/answers/" in path for path in model.paths) == 1


BAD_QUESTIONS: list[str] = [
    "no",
    json.dumps({"questions": [{"claim": "take 99 days", "question": "How long?"}]}),
    json.dumps({"questions": [{"claim": DAYS[0], "question": " "}]}),
    json.dumps({"questions": [{"claim": DAYS[0], "question": "Does it Take 30  days?"}]}),
]
BAD_CONTRADICTIONS: list[str] = [
    "no",
    contradictions(("take 99 days", 1)),
    contradictions((DAYS[0], 2)),
    contradictions((DAYS[0], 0)),
]


@pytest.mark.parametrize("bad", BAD_QUESTIONS)
def test_unusable_questions_are_asked_for_again_and_then_prove_nothing(bad: str) -> None:
    model = driver_scoring(0.9, bad, questions(DAYS), "30 days", NONE, writer=[WRONG])
    assert model.play(verifying()).passed
    assert "iterations/1/verify/questions/again/1" in model.paths
    is_unproven(driver_scoring(0.9, bad, bad, bad, writer=[WRONG]))


@pytest.mark.parametrize("bad", BAD_CONTRADICTIONS)
def test_unusable_contradictions_are_asked_for_again_and_then_prove_nothing(bad: str) -> None:
    asked = (0.9, questions(DAYS), "14 days")
    assert driver_scoring(*asked, bad, NONE, writer=[WRONG]).play(verifying()).passed
    is_unproven(driver_scoring(*asked, bad, bad, bad, writer=[WRONG]))


def is_unproven(model: EngineDriver) -> None:
    outcome = model.play(verifying())
    assert (outcome.best.scored.score, outcome.passed) == (0.9, False)
    (told,) = outcome.best.scored.caveats
    assert (told.code, told.path) == ("unverified", "verify")
    assert "unreadable_verification" in told.detail


def test_a_verified_draft_ranks_above_a_contradicted_one_with_a_higher_score() -> None:
    first = (0.8, questions(DAYS), "14 days", contradictions((DAYS[0], 1)))
    second = (0.5, questions(CASH), "cash", NONE)
    outcome = driver_scoring(*first, *second, writer=[WRONG, RIGHT]).play(
        verifying(max_iterations=2)
    )
    assert (outcome.best.path, outcome.reason) == ("iterations/2", StopReason.MAX_ITERATIONS)


@pytest.mark.parametrize("until", range(3))
def test_stopped_while_verifying_the_draft_is_kept_and_does_not_pass(until: int) -> None:
    said = [questions(DAYS), "30 days", NONE][:until]
    model = driver_scoring(0.9, *said, Stopped(), writer=[WRONG, Stopped()])
    outcome = model.play(verifying())
    assert (outcome.best.scored.score, outcome.passed, outcome.reason) == (0.9, False, None)
    (found,) = outcome.best.scored.findings
    assert "before this draft could be verified" in found.message


def test_a_changed_threshold_reaches_the_next_draft() -> None:
    model = driver_scoring(0.6, questions(CASH), "cash", NONE, writer=[WRONG])
    model.change = lambda judged, limits: limits.model_copy(update={"threshold": 0.5})
    assert model.play(verifying()).passed
    assert len(judged(model)) == 1


@pytest.mark.parametrize("most", [0, 13])
def test_the_number_of_questions_is_bounded(most: int) -> None:
    with pytest.raises(ValueError, match="max_questions"):
        verifying(strategy={"kind": "chain_of_verification", "max_questions": most})


def test_a_stop_that_leaves_the_last_draft_unverified_is_why_it_ended() -> None:
    outcome = driver_scoring(0.9, Stopped(), writer=[WRONG]).play(verifying(max_iterations=1))
    assert (outcome.reason, outcome.passed) == (None, False)


TOOL = {
    "name": "policy",
    "description": "Returns a policy.",
    "url": "https://tools.example.com",
    "parameters": {"required": ["about"], "properties": {"about": {"type": "string"}}},
}
REFUNDS = ("policy", {"about": "refunds"})
BOTH = questions(DAYS, CASH)
FOUND = ToolResult(True, "TEXT-policy")
NOT_A_TEXT = Finding(source="tools/policy", kind="arguments", message="7 is not a string")


def looking_up(
    *said: str | float | Stopped | StepError,
    result: ToolResult | Stopped = FOUND,
    **fields: object,
) -> EngineDriver:
    """Play a draft that is verified with a tool, to a success."""
    model = driver_scoring(0.9, BOTH, *said, NONE, writer=[WRONG])
    model.tool = lambda _: result
    assert model.play(verifying(tools=[TOOL], **fields)).passed
    return model


def answering(model: EngineDriver, number: int) -> str:
    (ask,) = [it for it in model.asked("critic") if it.path.endswith(f"/answers/{number}")]
    return ask.prompt.user


def test_a_question_is_answered_from_what_was_looked_up_for_it() -> None:
    model = looking_up(look_ups(REFUNDS, None), "14 days", "cash")
    (call,) = [it for it in model.moves if isinstance(it, Call)]
    assert (call.path, call.tool) == ("iterations/1/verify/answers/1/call", "policy")
    assert call.arguments == {"about": "refunds"}
    assert "TEXT-policy" in answering(model, 1)
    assert "what was looked up" in answering(model, 1)
    assert "TEXT-policy" not in answering(model, 2)
    assert "what was looked up" not in answering(model, 2)
    comparing = model.asked("critic")[-1].prompt.user
    assert '14 days\n[looked up: policy {"about": "refunds"}]' in comparing
    assert "cash\n[looked up" not in comparing
    assert judged(model)[0].caveats == ()


def test_whoever_picks_the_tool_sees_tools_and_questions_and_nothing_of_the_draft() -> None:
    model = looking_up(
        look_ups(None, None),
        "14 days",
        "cash",
        criteria=[{"name": "quality", "description": "Is it so?"}],
    )
    (picking,) = [it for it in model.asked("critic") if it.path.endswith("/verify/lookups")]
    for shown in ("policy: Returns a policy.", '"about"', DAYS[1], CASH[1], "Explain refunds."):
        assert shown in picking.prompt.user
    for hidden in (WRONG, DAYS[0], CASH[0], "Is it so?"):
        assert hidden not in picking.prompt.user + repr(picking.prompt_request)
    assert not [it for it in model.moves if isinstance(it, Call | Check)]


def test_arguments_that_do_not_fit_are_asked_for_again_with_the_error() -> None:
    wrong = look_ups(("policy", {"about": 7}), None)
    model = driver_scoring(
        0.9, BOTH, wrong, look_ups(REFUNDS, None), "14 days", "cash", NONE, writer=[WRONG]
    )
    model.fits = lambda calls: (NOT_A_TEXT,) if "7" in calls else ()
    model.play(verifying(tools=[TOOL]))
    checked = [it.path for it in model.moves if isinstance(it, Check)]
    assert checked == [f"iterations/1/verify/lookups{at}/check" for at in ("", "/again/1")]
    (again,) = [it for it in model.asked("critic") if it.path.endswith("/lookups/again/1")]
    assert NOT_A_TEXT.message in again.prompt.user
    (call,) = [it for it in model.moves if isinstance(it, Call)]
    assert call.arguments == {"about": "refunds"}


def test_a_failed_look_up_answers_nothing_and_is_said() -> None:
    model = looking_up(
        look_ups(REFUNDS, None), "14 days", "cash", result=ToolResult(False, "answered 503")
    )
    assert "503" not in answering(model, 1)
    assert "looked up" not in answering(model, 1) + model.asked("critic")[-1].prompt.user
    (told,) = judged(model)[0].caveats
    assert (told.code, told.path) == ("item_dropped", "verify/answers/1/call")
    assert "answered 503" in told.detail


def test_without_a_usable_pick_questions_are_answered_without_tools() -> None:
    unusable = look_ups(("oracle", {}), ("oracle", {}))
    model = looking_up(unusable, "no", "no", "14 days", "cash")
    assert not [it for it in model.moves if isinstance(it, Call)]
    (told,) = judged(model)[0].caveats
    assert (told.code, told.path) == ("item_dropped", "verify/lookups")


@pytest.mark.parametrize("bad", ['{"tool": "oracle"}', '{"tool": "policy", "arguments": "["}', "3"])
def test_what_cannot_be_read_of_a_pick_is_not_looked_up(bad: str) -> None:
    picked = json.loads(look_ups(None, REFUNDS))["lookups"] | {"q1": json.loads(bad)}
    model = looking_up(json.dumps({"lookups": picked}), "14 days", "cash")
    (call,) = [it for it in model.moves if isinstance(it, Call)]
    assert call.path == "iterations/1/verify/answers/2/call"


def test_arguments_that_never_fit_fail_their_look_up_alone() -> None:
    picked = look_ups(("policy", {"about": 7}), REFUNDS)
    model = driver_scoring(0.9, BOTH, *[picked] * 3, "14 days", "cash", NONE, writer=[WRONG])
    model.fits = lambda _: (NOT_A_TEXT,)
    model.tool = lambda call: ToolResult(call.arguments == {"about": "refunds"}, "not sent")
    model.play(verifying(tools=[TOOL]))
    (told,) = judged(model)[0].caveats
    assert told.path == "verify/answers/1/call"


def test_a_look_up_that_a_finish_leaves_out_leaves_its_question() -> None:
    model = looking_up(look_ups(REFUNDS, None), "14 days", "cash", result=Stopped())
    assert "iterations/1/verify/contradictions" in model.paths
    (told,) = judged(model)[0].caveats
    assert told.path == "verify/answers/1/call"


def test_tools_that_nothing_looks_up_with_are_refused() -> None:
    strategy = {"kind": "chain_of_verification", "look_up": False}
    with pytest.raises(ValueError, match="no strategy of the request may call the tool policy"):
        verifying(strategy=strategy, tools=[TOOL])


def test_a_tool_with_effects_is_refused_unless_a_plan_may_call_it() -> None:
    booking = {**TOOL, "name": "book", "effects": True}
    with pytest.raises(ValueError, match="the tool book, which has `effects`"):
        verifying(tools=[TOOL, booking])
    stages = [
        {"name": "booked", "body": {"kind": "plan_execute", "max_steps": 1}},
        {"name": "text", "mode": "revise", "body": {"kind": "chain_of_verification"}},
    ]
    model = driver_scoring(
        *(0.9, 0.9, questions(DAYS), look_ups(None), "30 days", NONE, 0.9),
        writer=["Booked.", WRONG],
    )
    model.play(verifying(strategy={"kind": "stepwise", "stages": stages}, tools=[TOOL, booking]))
    (picking,) = [it for it in model.asked("critic") if it.path.endswith("lookups")]
    assert "policy: Returns" in picking.prompt.user
    assert "book: Returns" not in picking.prompt.user


def test_only_tools_without_effects_make_a_look_up_count() -> None:
    stages = [
        {"name": "booked", "body": {"kind": "plan_execute", "max_steps": 1}},
        {"name": "text", "mode": "revise", "body": {"kind": "chain_of_verification"}},
    ]
    of = {"strategy": {"kind": "stepwise", "stages": stages}}
    without = at_most(verifying(**of))
    assert at_most(verifying(tools=[{**TOOL, "effects": True}], **of)) == without
    assert at_most(verifying(tools=[TOOL], **of)) > without


def test_beside_another_verification_that_looks_up_one_may_do_without() -> None:
    body = {"kind": "chain_of_verification", "look_up": False}
    stages = [
        {"name": "facts", "body": {"kind": "chain_of_verification"}},
        {"name": "text", "mode": "revise", "body": body},
    ]
    asked = (look_ups(REFUNDS), "30 days", NONE)
    model = driver_scoring(
        *(0.9, questions(DAYS), *asked, 0.9),
        *(0.9, questions(DAYS), "30 days", NONE, 0.9),
        writer=[WRONG],
    )
    model.play(verifying(strategy={"kind": "stepwise", "stages": stages}, tools=[TOOL]))
    picked = [it.path for it in model.asked("critic") if it.path.endswith("lookups")]
    assert picked == ["stages/facts/iterations/1/verify/lookups"]
