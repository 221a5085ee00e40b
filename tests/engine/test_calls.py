"""How many calls a request makes at most: no more, and no fewer when everything goes badly."""

from itertools import chain, repeat
from typing import Any

import pytest

from app.contract.calls import AGAIN, at_most
from app.contract.judgement import Finding, OnFail
from app.contract.requests import RefinementRequest
from app.contract.strategies.parts import StepwiseStrategy
from tests.engine.costly_models import (
    DRAFTS,
    ITERATION,
    KINDS,
    LOOK_UP,
    CostlyDriver,
    spent_on,
)
from workers.engine.moves import Ask

PANEL = {"samples": 2, "panel": [{"name": "reader"}, {"name": "lawyer", "adversarial": True}]}
OUTPUTS = [{"name": name, "instructions": "A line."} for name in ("subject", "summary")]
AROUND: dict[str, dict[str, Any]] = {
    "alone": {},
    "with all": {
        "critics": PANEL,
        "criteria": "auto",
        "edits": "delta",
        "compare": True,
        "outputs": OUTPUTS,
    },
    "with edits of long drafts": {"edits": "auto"},
    "with one draft": {"compare": True},
}
QUICK = ("alone", "with all")
FAULTS = tuple(
    Finding(source=f"validators/{n}", kind="json", message="no", on_fail=OnFail.VETO)
    for n in range(2)
)


def worst(asked: RefinementRequest) -> CostlyDriver:
    """Scores rise and never suffice, but in the last iteration of a stage; only the last re-ask
    can be read."""
    plans = [it for it in asked.strategy.every() if isinstance(it, StepwiseStrategy)]
    last = {
        it.name: 1 if it.body.inner() else it.max_iterations for plan in plans for it in plan.stages
    }

    found = chain([FAULTS], repeat(FAULTS[:1]))

    def score(path: str) -> float:
        at = ITERATION.match(path)
        if at is None:  # whether the text is whole
            return 0.5
        search, number = at["search"] or "", int(at["number"])
        suffices = "stages/" in search and last.get(search.rpartition("/")[2]) == number
        return 1.0 if suffices else 0.5 + number / 100

    def spoiled(move: Ask, reply: str) -> str:
        return reply if move.path.endswith(f"/again/{AGAIN}") else ""

    return CostlyDriver(iter(()), iter(()), lambda _: next(found), score=score, spoiled=spoiled)


def calls(model: CostlyDriver) -> int:
    return len(model.asked("generator")) + len(model.asked("critic"))


def how_long(kind: str, around: str) -> tuple[pytest.MarkDecorator, ...]:
    return () if kind == "iterative" or around in QUICK else (pytest.mark.long,)


@pytest.mark.parametrize(
    ("kind", "has_draft", "around"),
    [
        pytest.param(kind, has_draft, around, marks=how_long(kind, around))
        for kind in KINDS
        for has_draft in DRAFTS[kind]
        for around in AROUND
    ],
)
def test_what_a_request_costs_at_most_is_what_it_costs_at_worst(
    kind: str, has_draft: bool, around: str
) -> None:
    costs_what_it_may(spent_on(kind, has_draft=has_draft, **AROUND[around]))


@pytest.mark.parametrize("kind", ["chain_of_verification", "plan_execute", "stepwise of bodies"])
def test_so_is_what_a_request_with_tools_costs(kind: str) -> None:
    costs_what_it_may(spent_on(kind, has_draft=False, tools=[LOOK_UP]))


def costs_what_it_may(asked: RefinementRequest) -> None:
    model = worst(asked)
    model.play(asked)
    assert calls(model) == at_most(asked)
