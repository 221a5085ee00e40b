"""A plan that changes with what is observed, and a text that is written from it."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from app.contract.judgement import Finding
from app.contract.requests import RefinementRequest
from app.contract.status import StopReason
from app.contract.tools import MAX_RESULT
from tests.engine.engine_driver import EngineDriver, drafts, driver_scoring, request, verdict
from tests.engine.scripted_replies import named, plan, revised, step
from workers.engine.moves import Ask, Call, Check, ReviewerReply, StepError, Stopped, ToolResult

LOOK_UP = {
    "name": "look_up",
    "description": "Returns one policy.",
    "url": "https://example.com/look-up",
    "parameters": {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}},
}
FOUND = "Refunds take 14 days."
MET = revised(met=True, evidence=((1, "14 days"),))
BROKEN = ToolResult(False, "example.com answered 404: no such policy")


def asked(max_steps: int = 8, **fields: Any) -> RefinementRequest:
    strategy = {"kind": "plan_execute", "max_steps": max_steps}
    return request(**{"strategy": strategy, "tools": [LOOK_UP], "threshold": 0.8, **fields})


def planning(
    *plans: str | StepError | Stopped, tool: Callable[[Call], ToolResult] | None = None
) -> EngineDriver:
    """A planner with these answers, a writer whose texts differ, and a critic who likes them."""
    model = driver_scoring(*[0.9] * 9)
    model.planner = iter(plans)
    if tool is not None:
        model.tool = tool
    return model


def found(_: Call) -> ToolResult:
    return ToolResult(True, FOUND)


def calls(model: EngineDriver) -> list[tuple[str, Any]]:
    return [(it.path, it.arguments) for it in model.moves if isinstance(it, Call)]


def prompts(model: EngineDriver, path: str) -> str:
    return next(it.prompt.user for it in model.moves if isinstance(it, Ask) and it.path == path)


def test_plans_acts_observes_and_writes_from_what_it_saw() -> None:
    model = planning(
        plan(step("Look it up.", "look_up", id=7), "Say what it means."), MET, tool=found
    )
    outcome = model.play(asked())
    assert model.paths == [
        "plan", "plan/check",
        "steps/1/call", "steps/2/do", "steps/2/replan",
        "iterations/1/draft", "iterations/1/critique", "iterations/1",
    ]  # fmt: skip
    assert calls(model) == [("steps/1/call", {"id": 7})]
    assert FOUND in prompts(model, "steps/2/do")
    assert FOUND in prompts(model, "iterations/1/draft")
    assert FOUND in prompts(model, "iterations/1/critique")
    assert (outcome.reason, outcome.passed) == (StopReason.THRESHOLD_MET, True)


def test_the_goal_is_met_when_an_observation_is_quoted() -> None:
    model = planning(
        plan(step("Look it up.", "look_up", id=7)),
        revised("Look elsewhere.", met=True, evidence=((1, "14 days"),)),
        tool=found,
    )
    model.play(asked())
    assert "steps/2/do" not in model.paths
    assert model.paths[-3:] == ["iterations/1/draft", "iterations/1/critique", "iterations/1"]


@pytest.mark.parametrize("evidence", [(), ((1, "30 days"),), ((2, "14 days"),), ((1, " "),)])
def test_a_goal_met_without_a_quotation_that_stands_there_is_returned_and_does_not_count(
    evidence: tuple[tuple[int, str], ...],
) -> None:
    unproven = revised("Look elsewhere.", met=True, evidence=evidence)
    model = planning(
        plan(step("Look it up.", "look_up", id=7)), *[unproven] * 3, revised(), tool=found
    )
    model.play(asked())
    assert "needs evidence" in prompts(model, "steps/1/replan/again/1")
    assert [it for it in model.paths if it.startswith("steps/1/replan")] == [
        "steps/1/replan", "steps/1/replan/again/1", "steps/1/replan/again/2",
    ]  # fmt: skip
    assert "steps/2/do" in model.paths


def test_what_a_failed_tool_said_proves_nothing() -> None:
    model = planning(
        plan(step("Look it up.", "look_up", id=7)),
        *[revised(met=True, evidence=((1, "no such policy"),))] * 3,
        tool=lambda _: BROKEN,
    )
    model.play(asked())
    assert "needs evidence" in prompts(model, "steps/1/replan/again/2")


def test_a_failed_tool_leads_to_a_changed_plan() -> None:
    answers = iter([BROKEN, ToolResult(True, FOUND)])
    model = planning(
        plan(step("Look it up.", "look_up", id=7)),
        revised(step("Look up the next one.", "look_up", id=8)),
        revised(met=True, evidence=((2, "14 days"),)),
        tool=lambda _: next(answers),
    )
    outcome = model.play(asked())
    assert calls(model) == [("steps/1/call", {"id": 7}), ("steps/2/call", {"id": 8})]
    told = prompts(model, "steps/1/replan")
    assert BROKEN.text in told
    assert "Step 1 failed" in told
    assert BROKEN.text not in prompts(model, "iterations/1/draft")
    assert outcome.passed


def test_a_call_that_failed_is_not_made_again() -> None:
    again = revised(step("Try again.", "look_up", id=7), "Say that it is unknown.")
    model = planning(
        plan(step("Look it up.", "look_up", id=7)), *[again] * 3, revised(), tool=lambda _: BROKEN
    )
    model.play(asked())
    assert "failed before: plan another way" in prompts(model, "steps/1/replan/again/1")
    assert len(calls(model)) == 1
    assert "steps/2/do" in model.paths


def test_no_more_steps_than_allowed_are_carried_out_and_the_last_is_followed_by_a_verdict() -> None:
    model = planning(plan("One."), revised("Two.", "Three.", "Four."), revised("Four."))
    model.play(asked(max_steps=3))
    assert model.paths[:4] == ["plan", "steps/1/do", "steps/1/replan", "steps/2/do"]
    assert model.paths[4:7] == ["steps/3/do", "steps/3/replan", "iterations/1/draft"]
    assert "At most 3 steps" in prompts(model, "plan")
    assert "At most 2 more steps" in prompts(model, "steps/1/replan")
    assert "At most 0 more steps" in prompts(model, "steps/3/replan")


@pytest.mark.parametrize(
    ("verdict_said", "passed"),
    [([MET], True), ([revised("More.")], False), (["no plan"] * 3, False)],
)
def test_the_verdict_after_the_last_step_allowed_says_whether_the_goal_is_met(
    verdict_said: list[str], passed: bool
) -> None:
    first = plan(step("Look it up.", "look_up", id=7))
    outcome = planning(first, *verdict_said, tool=found).play(asked(max_steps=1))
    assert outcome.passed is passed
    assert [it.code for it in outcome.caveats] == ([] if passed else ["goal_not_met"])


def test_the_planner_knows_the_tools_and_what_remains_of_its_plan() -> None:
    first = plan(step("Look it up.", "look_up", id=7), "Order the points.")
    model = planning(first, revised(), tool=lambda _: BROKEN)
    model.play(asked())
    for path in ("plan", "steps/1/replan"):
        assert "look_up: Returns one policy." in prompts(model, path)
    assert "Order the points." in prompts(model, "steps/1/replan")


def test_a_call_that_worked_may_be_made_again() -> None:
    call = step("Look it up.", "look_up", id=7)
    model = planning(plan(call), revised(call), revised(), tool=found)
    model.play(asked())
    assert [path for path, _ in calls(model)] == ["steps/1/call", "steps/2/call"]


def test_the_order_of_names_makes_no_other_call() -> None:
    first, second = step("Look.", "look_up", id=7, a=1), step("Look.", "look_up", a=1, id=7)
    model = planning(plan(first), *[revised(second)] * 3, tool=lambda _: BROKEN)
    model.play(asked())
    assert len(calls(model)) == 1


def test_steps_without_use_are_not_checked() -> None:
    model = planning(
        plan(step("Look it up.", "look_up", id=7)),
        revised(step("Once more.", "look_up"), met=True, evidence=((1, "14 days"),)),
        tool=found,
    )
    model.play(asked())
    assert [it.path for it in model.moves if isinstance(it, Check)] == ["plan/check"]


def test_a_reviewers_text_is_what_the_plan_starts_from() -> None:
    model = planning(plan("Think."), revised())
    model.critic = iter([verdict(0.3), verdict(0.4), verdict(0.9)])
    ours = ReviewerReply("replace", draft="We refund, if asked.")
    model.reviewer = iter([ours, ReviewerReply("rate"), ReviewerReply("approve")])
    model.play(asked(draft="We refund.", review={"when": "each_iteration"}))
    assert "We refund, if asked." in prompts(model, "plan")


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("First I would look around.", "no JSON object"),
        (plan(), "at least 1 item"),
        (
            plan(step("Search.", "search", q="refunds")),
            "unknown tool 'search'; known tools: look_up",
        ),
        (plan({**step("Do."), "arguments": {"id": 7}}), "arguments but no tool"),
        (plan({**step("Do.", "look_up"), "arguments": "{id: 7}"}), "steps/0/arguments"),
        (plan({**step("Do.", "look_up"), "arguments": [7]}), "steps/0/arguments"),
        (plan(step("Do.", "look_up", id=float("nan"))), "steps/0/arguments"),
        (plan({**step("Do.", "look_up"), "arguments": '{"id": 1e999}'}), "steps/0/arguments"),
        (plan(step("Do.", "look_up", id="\ud800")), "surrogate"),
        (plan(step("Look it up.", "look_up", id="seven")), "the arguments of look_up: not seven"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_returned_with_the_error(
    reply: str, said: str
) -> None:
    model = planning(reply, plan("Think."), revised())
    model.fits = lambda calls: (unfit,) if "seven" in calls else ()
    unfit = Finding(source="x", kind="x", message="the arguments of look_up: not seven")
    model.play(asked())
    assert said in prompts(model, "plan/again/1")
    assert calls(model) == []


def test_a_plan_that_is_never_readable_fails_and_calls_nothing() -> None:
    with pytest.raises(StepError, match="unreadable_plan"):
        planning("no", "no", "no").play(asked())


def test_arguments_may_be_written_as_text_and_are_checked_before_anything_is_called() -> None:
    model = planning(
        plan({**step("Look.", "look_up"), "arguments": '{"id": 7}'}), revised(), tool=found
    )
    model.play(asked())
    assert calls(model) == [("steps/1/call", {"id": 7})]
    (check,) = [it for it in model.moves if isinstance(it, Check)]
    assert json.loads(check.draft) == [{"tool": "look_up", "arguments": {"id": 7}}]


def test_a_plan_that_may_not_go_on_leaves_a_text_written_from_what_it_saw() -> None:
    model = planning(plan(step("Look it up.", "look_up", id=7)), Stopped(), tool=found)
    outcome = model.play(asked(accept=["goal_not_met"]))
    assert (outcome.passed, [it.code for it in outcome.caveats]) == (True, ["goal_not_met"])
    assert FOUND in prompts(model, "iterations/1/draft")


def test_told_to_stop_before_anything_is_written_it_stops() -> None:
    stopped = planning(Stopped())
    stopped.writer = iter([Stopped()])
    with pytest.raises(Stopped):
        stopped.play(asked())


def test_a_clients_draft_is_judged_first_and_is_material_for_the_plan() -> None:
    model = planning(plan(step("Look it up.", "look_up", id=7)), MET, tool=found)
    model.critic = iter([verdict(0.3), verdict(0.9)])
    outcome = model.play(asked(draft="We refund, some day."))
    assert model.paths[:3] == ["iterations/0/critique", "iterations/0", "plan"]
    assert "We refund, some day." in prompts(model, "plan")
    assert FOUND in prompts(model, "iterations/1/revise")
    assert (outcome.best.path, outcome.passed) == ("iterations/1", True)


def test_a_clients_draft_that_passes_needs_no_plan() -> None:
    model = planning()
    assert model.play(asked(draft="We refund within 14 days.")).best.path == "iterations/0"
    assert model.asked("generator") == []


def test_nothing_is_planned_once_a_reviewer_has_used_up_the_drafts() -> None:
    model = planning(plan(step("Look it up.", "look_up", id=7)), MET, tool=found)
    model.critic = iter([verdict(0.3), verdict(0.4)])
    model.reviewer = iter([ReviewerReply("revise"), ReviewerReply("rate", score=0.4)])
    reviewed = asked(draft="We refund.", max_iterations=1, review={"when": "each_iteration"})
    outcome = model.play(reviewed)
    assert (outcome.reason, calls(model)) == (StopReason.MAX_ITERATIONS, [])


def test_a_clients_draft_is_the_result_when_stopped_in_the_middle_of_the_plan() -> None:
    model = planning(Stopped())
    model.critic, model.writer = iter([verdict(0.3)]), iter([Stopped()])
    outcome = model.play(asked(draft="We refund."))
    assert (outcome.best.path, outcome.passed, outcome.reason) == ("iterations/0", False, None)


def test_a_text_below_the_threshold_is_revised_with_what_was_observed() -> None:
    model = planning(plan(step("Look it up.", "look_up", id=7)), MET, tool=found)
    model.critic = iter([verdict(0.3), verdict(0.9)])
    outcome = model.play(asked())
    assert FOUND in prompts(model, "iterations/2/revise")
    assert (outcome.best.path, outcome.passed) == ("iterations/2", True)


def test_without_tools_every_step_is_done_by_the_writer() -> None:
    model = planning(plan("Collect points.", "Order them."), revised())
    model.writer = iter(["point one", "point two", *[next(drafts())]])
    model.play(asked(tools=[]))
    assert "point one" in prompts(model, "steps/2/do")
    assert not any(isinstance(it, Check) for it in model.moves)


def test_only_a_plan_is_allowed_to_hold_up_no_first_draft() -> None:
    model = planning(plan(step("Look it up.", "look_up", id=7)), revised("Think."), revised())
    model.play(asked())
    sparing = [it.path for it in model.moves if isinstance(it, Ask) and it.prepares]
    assert sparing == ["plan", "steps/1/replan", "steps/2/do", "steps/2/replan"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"strategy": {"kind": "iterative"}}, "supported only by the strategy plan_execute"),
        ({"tools": [LOOK_UP, LOOK_UP]}, "two tools have the same name"),
        ({"tools": [{**LOOK_UP, "url": "ftp://example.com"}]}, "url"),
        ({"tools": [{**LOOK_UP, "name": "Look up"}]}, "name"),
        ({"tools": [{**LOOK_UP, "parameters": {"title": "x" * 20_000}}]}, "at most 20000"),
        ({"task": None, "draft": "We refund."}, "`task` is required"),
        ({"strategy": {"kind": "plan_execute", "max_steps": 31}}, "max_steps"),
    ],
)
def test_what_cannot_be_planned_is_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        asked(**fields)


def test_what_is_made_of_the_draft_afterwards_knows_what_was_observed() -> None:
    model = planning(plan(step("Look it up.", "look_up", id=7)), revised(), tool=found)
    model.reviewer = iter([ReviewerReply("revise", feedback="Shorter."), ReviewerReply("approve")])
    outputs = [{"name": "subject", "instructions": "A subject line."}]
    outcome = model.play(asked(review={"when": "before_completion"}, outputs=outputs))
    assert FOUND in prompts(model, "reviews/1/iterations/1/revise")
    assert FOUND in prompts(model, "reviews/1/iterations/1/critique")
    assert FOUND in prompts(model, "outputs/subject")
    assert outcome.outputs.keys() == {"subject"}


def test_a_planner_that_is_marked_as_refusing_is_asked_again() -> None:
    declined = StepError("reply_refused", "the model refused: no")
    model = planning(declined, plan("Think."), revised())
    model.play(asked())
    assert model.paths[:3] == ["plan", "plan/again/1", "steps/1/do"]


def test_without_an_answer_in_time_a_call_that_needs_an_approval_is_not_made() -> None:
    model = planning(plan(step("Look it up.", "look_up", id=7)), revised(), tool=found)
    model.reviewer = iter([ReviewerReply("reject", is_timeout=True)])
    strategy = {"kind": "plan_execute", "approval": "before_call"}
    outcome = model.play(asked(strategy=strategy, tools=[{**LOOK_UP, "effects": True}]))
    assert calls(model) == []
    assert "nobody answered in time" in prompts(model, "steps/1/replan")
    assert outcome.passed is False


def test_only_a_tool_with_effects_needs_an_approval() -> None:
    model = planning(plan(step("Look it up.", "look_up", id=7)), MET, tool=found)
    changing = {**LOOK_UP, "name": "change", "effects": True}
    strategy = {"kind": "plan_execute", "approval": "before_call"}
    assert model.play(asked(strategy=strategy, tools=[LOOK_UP, changing])).passed
    assert calls(model) == [("steps/1/call", {"id": 7})]


def by_id(call: Call) -> ToolResult:
    """A tool that knows everything but number 2."""
    return BROKEN if call.arguments.get("id") == 2 else ToolResult(True, f"{call.arguments} known")


def test_steps_that_need_nothing_are_carried_out_side_by_side_and_the_plan_is_not_revised() -> None:
    think: dict[str, object] = {"name": "c", "instruction": "Compare.", "needs": ["b", "a"]}
    steps = named("a", id=1), named("b", id=3), think, named("d", id=5)
    model = planning(plan(*steps), revised(), tool=by_id)
    model.play(asked())
    assert [it for _, it in calls(model)] == [{"id": 1}, {"id": 3}, {"id": 5}]
    assert [it for it in model.paths if it.endswith("replan")] == ["steps/4/replan"]
    assert model.together == [3]
    told = prompts(model, "steps/4/replan")
    places = [told.index(f"{{'id': {number}}} known") for number in (1, 3, 5)]
    assert places == sorted(places)
    assert "Steps 1, 2, 3, 4 were carried out." in told


def test_of_equal_calls_that_could_stand_side_by_side_none_is_made_after_one_failed() -> None:
    steps = named("a", id=2), named("b", id=2), named("c", id=3)
    model = planning(plan(*steps), revised(), tool=by_id)
    model.play(asked())
    assert [it for _, it in calls(model)] == [{"id": 2}, {"id": 3}]


def test_a_failure_beside_others_changes_the_plan_and_the_others_are_kept() -> None:
    steps = named("a", id=1), named("b", id=2), named("c", "a", id=4)
    model = planning(plan(*steps), revised(named("c", "a", id=4)), revised(), tool=by_id)
    outcome = model.play(asked())
    assert [path for path, _ in calls(model)] == ["steps/1/call", "steps/2/call", "steps/3/call"]
    told = prompts(model, "steps/2/replan")
    assert "{'id': 1} known" in told
    assert "Step 2 failed" in told
    assert "Do c." in told
    assert [it.code for it in outcome.caveats] == ["goal_not_met", "item_dropped"]


def test_the_plan_is_revised_when_arguments_that_a_call_waits_for_can_be_known() -> None:
    steps = named("find", id=1), named("read", "find"), named("other", id=3)
    model = planning(plan(*steps), revised(named("read", "find", id=9)), revised(), tool=by_id)
    model.play(asked())
    assert [it for _, it in calls(model)] == [{"id": 1}, {"id": 3}, {"id": 9}]
    told = prompts(model, "steps/2/replan")
    assert "tool: look_up, arguments: to be found out" in told
    assert "Steps 1, 2 were carried out." in told


def test_the_remaining_plan_says_what_its_steps_need() -> None:
    steps = named("a", id=2), named("b", "a", id=3), named("c", "b", "a", id=4)
    model = planning(plan(*steps), revised(), tool=by_id)
    model.play(asked())
    told = prompts(model, "steps/1/replan")
    assert "needs: b" in told
    assert "needs: a" not in told


def test_a_call_with_effects_comes_alone_and_after_what_may_change_the_plan() -> None:
    change = {**LOOK_UP, "name": "change", "effects": True}
    steps = named("book", tool="change", id=7), named("a", id=1), named("b", id=3)
    model = planning(plan(*steps), revised(steps[0]), revised(), tool=by_id)
    model.play(asked(tools=[LOOK_UP, change]))
    assert [it.tool for it in model.moves if isinstance(it, Call)] == [
        "look_up",
        "look_up",
        "change",
    ]
    failing = planning(plan(*steps, named("c", id=2)), revised(), tool=by_id)
    failing.play(asked(tools=[LOOK_UP, change]))
    assert [it.tool for it in failing.moves if isinstance(it, Call)] == ["look_up"] * 3


def test_steps_may_share_a_name_that_no_step_needs() -> None:
    steps = named("a", id=1), named("a", id=3), named("b", id=4)
    model = planning(plan(*steps), revised(), tool=by_id)
    model.play(asked())
    assert [arguments["id"] for _, arguments in calls(model)] == [1, 3, 4]


def test_arguments_that_a_reviewer_changed_change_the_plan() -> None:
    change = {**LOOK_UP, "name": "change", "effects": True}
    steps = named("book", tool="change", id=7), named("a", "book", id=1)
    model = planning(plan(*steps), revised(), tool=by_id)
    model.reviewer = iter([ReviewerReply("replace", arguments={"id": 8})])
    strategy = {"kind": "plan_execute", "approval": "before_call"}
    model.play(asked(strategy=strategy, tools=[LOOK_UP, change]))
    assert calls(model) == [("steps/1/call", {"id": 8})]
    assert '"id": 8' in prompts(model, "steps/1/replan")


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((named("a", "b", id=1),), "step 1 needs 'b', which is no step of the plan: 'a'"),
        ((named("a", "a", id=1),), "steps must not need each other: 'a' needs 'a'"),
        (
            (named("a", "c", id=1), named("b", "a", id=1), named("c", "b", id=1)),
            "'a' needs 'c' needs 'b' needs 'a'",
        ),
        (
            (named("a", id=1), named("a", id=3), named("b", "a", id=4)),
            "step 3 needs 'a', the name of 2 steps",
        ),
        (({**named("a", id=1), "needs": "b"},), "needs"),
    ],
)
def test_needs_that_cannot_be_met_are_returned_with_the_error(
    steps: tuple[dict[str, object], ...], said: str
) -> None:
    model = planning(plan(*steps), plan("Think."), revised())
    model.play(asked())
    assert said in prompts(model, "plan/again/1")
    assert calls(model) == []


def test_what_needs_a_call_that_is_left_out_or_was_carried_out_waits_for_nothing() -> None:
    again = revised(named("b", id=2), named("c", "b", "a", id=4))
    model = planning(plan(named("a", id=1), named("b", id=2)), *[again] * 3, revised(), tool=by_id)
    model.play(asked())
    assert [it for _, it in calls(model)] == [{"id": 1}, {"id": 2}, {"id": 4}]


def test_no_more_steps_than_are_left_are_carried_out_side_by_side() -> None:
    model = planning(plan(*(named(name, id=ord(name)) for name in "abcde")), revised(), tool=by_id)
    model.play(asked(max_steps=3))
    assert len(calls(model)) == 3


def test_results_side_by_side_share_the_room_of_one_and_short_ones_stay_whole() -> None:
    answers = iter(["short", "a" * MAX_RESULT, "b" * MAX_RESULT])
    model = planning(
        plan(*(named(name, id=ord(name)) for name in "abc")),
        revised(),
        tool=lambda _: ToolResult(True, next(answers)),
    )
    model.play(asked())
    told = prompts(model, "iterations/1/draft")
    assert "short" in told
    assert told.count("[cut off here, after 99") == 2
    assert 2 * 9_800 < told.count("a" * 100) * 100 + told.count("b" * 100) * 100 <= MAX_RESULT


@pytest.mark.parametrize("refusals", [(Stopped(), BROKEN), (StepError("x", "y"), Stopped())])
def test_stopped_in_one_of_several_steps_the_results_of_the_others_are_kept(refusals: Any) -> None:
    answers = iter([ToolResult(True, FOUND), *refusals])
    model = planning(
        plan(*(named(name, id=ord(name)) for name in "abc")), tool=lambda _: next(answers)
    )
    outcome = model.play(asked(accept=["goal_not_met"]))
    assert FOUND in prompts(model, "iterations/1/draft")
    assert "goal_not_met" in {it.code for it in outcome.caveats}


EXPLORE = {**LOOK_UP, "name": "explore"}
CREATE = {**LOOK_UP, "name": "create", "effects": True}


def exploring(create: dict[str, object], *revisions: str) -> EngineDriver:
    """A planner who wants JSON; the tool that explores answers XML."""
    explore = named("explore", tool="explore", id=1)
    answer = ToolResult(True, "<format>XML is what it takes</format>")
    return planning(plan(explore, create), *revisions, tool=lambda _: answer)


def creating(format_: str, *needs: str) -> dict[str, object]:
    return named("create", *needs, tool="create", format=format_)


def test_a_call_with_effects_is_not_made_as_it_was_planned_before_what_it_needs_was_observed() -> (
    None
):
    model = exploring(creating("json", "explore"), revised(creating("xml", "explore")), revised())
    model.play(asked(tools=[EXPLORE, CREATE]))
    assert calls(model) == [("steps/1/call", {"id": 1}), ("steps/2/call", {"format": "xml"})]
    told = prompts(model, "steps/1/replan")
    assert "XML is what it takes" in told
    assert 'tool: create, arguments: {"format": "json"}' in told


def test_a_confirmed_call_with_effects_is_made_and_costs_one_question() -> None:
    create = creating("json", "explore")
    model = exploring(create, revised(create), revised())
    model.play(asked(tools=[EXPLORE, CREATE]))
    assert calls(model)[1] == ("steps/2/call", {"format": "json"})
    assert [it for it in model.paths if it.endswith("replan")] == [
        "steps/1/replan", "steps/2/replan",
    ]  # fmt: skip


def test_a_call_with_effects_that_does_not_say_what_it_needs_needs_all_before_it() -> None:
    create = step("Create it.", "create", format="json")
    model = exploring(create, revised(creating("xml")), revised())
    model.play(asked(tools=[EXPLORE, CREATE]))
    assert calls(model)[1] == ("steps/2/call", {"format": "xml"})


def test_a_call_with_effects_that_says_it_needs_nothing_is_confirmed_all_the_same() -> None:
    model = exploring(creating("json"), revised(creating("xml")), revised())
    model.play(asked(tools=[EXPLORE, CREATE]))
    assert calls(model)[1] == ("steps/2/call", {"format": "xml"})


def test_of_two_calls_with_effects_the_second_is_confirmed_after_the_first() -> None:
    one, two = creating("json"), {**creating("xml"), "name": "again"}
    model = planning(plan(one, two), revised(), tool=found)
    model.play(asked(tools=[CREATE]))
    assert [path for path, _ in calls(model)] == ["steps/1/call"]


def test_a_look_up_that_needs_another_one_is_confirmed_or_changed_first() -> None:
    steps = named("a", id=1), named("b", "a", id=3)
    model = planning(plan(*steps), revised(named("b", id=4)), revised(), tool=by_id)
    model.play(asked())
    assert [it for _, it in calls(model)] == [{"id": 1}, {"id": 4}]


@pytest.mark.parametrize(("revise", "revised_after"), [("each_step", [2, 3]), ("when_learnt", [3])])
def test_a_plan_is_revised_after_each_step_if_asked_after_steps_side_by_side_once(
    revise: str, revised_after: list[int]
) -> None:
    steps = named("a", id=1), named("b", id=3), {**step("Compare."), "needs": ["a", "b"]}
    model = planning(plan(*steps), *[revised("Compare.")] * 2, revised(), tool=by_id)
    model.play(asked(max_steps=3, strategy={"kind": "plan_execute", "revise": revise}))
    replans = [it for it in model.paths if it.endswith("replan")]
    assert replans[: len(revised_after)] == [f"steps/{it}/replan" for it in revised_after]
