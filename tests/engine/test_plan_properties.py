"""However planner and tools behave: what is called, how often, and that it ends."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.contract.calls import AGAIN, at_most
from app.contract.status import blocks
from tests.engine.engine_driver import EngineDriver, drafts, request, verdict
from tests.engine.scripted_replies import plan, revised, step
from tests.engine.test_plan_execute import LOOK_UP
from workers.engine.moves import Call, StepError, ToolResult
from workers.engine.strategies.plan_execute import Plan, Replan

NEEDS: st.SearchStrategy[list[str] | None] = st.none() | st.lists(
    st.sampled_from(["a", "b", "c"]), max_size=2
)
STEPS = st.lists(
    st.sampled_from(["Think."])
    | st.integers(1, 3).map(lambda n: step("Look.", "look_up", id=n))
    | st.builds(
        lambda name, needs, n: step("Look.", "look_up", id=n) | {"name": name, "needs": needs},
        st.sampled_from(["a", "b", "c"]),
        NEEDS,
        st.integers(1, 3),
    ),
    max_size=3,
)
PLANS = st.one_of(
    st.just("no plan"),
    STEPS.map(lambda it: plan(*it)),
    STEPS.map(lambda it: revised(*it)),
    STEPS.map(lambda it: revised(*it, met=True, evidence=((1, "word1.0"),))),
)


@given(
    most=st.integers(1, 6),
    plans=st.lists(PLANS, min_size=20, max_size=20),
    works=st.lists(st.booleans(), min_size=6, max_size=6),
    revise=st.sampled_from(["when_learnt", "each_step"]),
    effects=st.booleans(),
)
def test_steps_are_bounded_and_no_call_that_failed_is_made_again(
    most: int, plans: list[str], works: list[bool], revise: str, effects: bool
) -> None:
    results = iter(works)
    failed: list[Any] = []

    def tool(call: Call) -> ToolResult:
        assert call.arguments not in failed
        ok = next(results)
        failed.extend([] if ok else [call.arguments])
        return ToolResult(ok, "a word" if ok else "no answer")

    def endless() -> Iterator[str]:
        yield from plans
        while True:
            yield plan("Think on.")

    model = EngineDriver(iter([verdict(0.9)]), drafts(), planner=endless(), tool=tool)
    asked = request(
        strategy={"kind": "plan_execute", "max_steps": most, "revise": revise},
        tools=[{**LOOK_UP, "effects": effects}],
        threshold=0.8,
    )
    with suppress(StepError):  # no plan could be read
        outcome = model.play(asked)
        assert outcome.passed is not blocks(outcome.caveats, frozenset())
    done = [path for path in model.paths if path.endswith(("/do", "/call"))]
    assert [path.split("/")[1] for path in done] == [str(n) for n in range(1, len(done) + 1)]
    assert len(done) <= most
    planned = [
        it for it in model.asked("generator") if isinstance(it.prompt_request, Plan | Replan)
    ]
    assert len(planned) <= (most + 1) * (AGAIN + 1)
    assert len(planned) <= at_most(asked)
    assert len({it.path for it in planned}) == len(planned)
    assert all(it.prepares for it in planned)
