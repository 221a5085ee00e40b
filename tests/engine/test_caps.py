"""For every strategy and whatever a model says: no search exceeds its cap, and none the calls."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.calls import AGAIN, at_most
from tests.engine.costly_models import DRAFTS, ITERATION, KINDS, OWN, CostlyDriver, spent_on
from tests.engine.drawn_lists import lists_of
from tests.engine.engine_driver import Refusal
from workers.engine.moves import Ask, Judged, ReviewerReply, StepError, Stopped
from workers.engine.prompts import Judge
from workers.engine.verification import Answer

BODIES = ("iterative", "best_of_n", "multi_pass", "stepwise")
CRITICS = [{}, {"samples": 2}, {"samples": 2, "panel": [{"name": "one"}, {"name": "two"}]}]
REVIEWS = [None, {"when": "each_iteration"}, {"when": "before_completion"}]
AROUND = st.fixed_dictionaries(
    {
        "critics": st.sampled_from(CRITICS),
        "criteria": st.sampled_from([[], "auto"]),
        "edits": st.sampled_from(["full", "delta", "auto"]),
        "compare": st.booleans(),
        "outputs": st.sampled_from([[], [{"name": "subject", "instructions": "A line."}]]),
        "review": st.sampled_from(REVIEWS),
        "max_iterations": st.integers(4, 6),
        "threshold": st.sampled_from([0.3, 0.8, 1.0]),
    }
)
SAID = ["read"] * 9 + ["unreadable"] * 3 + ["refused", "stopped"]
WORDS = st.sampled_from(
    [ReviewerReply("rate", score=it) for it in (0.1, 0.5, 0.9)] + [ReviewerReply("reject")]
)


def cap_of(strategy: Any, most: int, search: Sequence[str]) -> int:
    """Return how many drafts a search may have, besides the one that it starts with."""
    cap: int = most
    match [strategy.kind, *search]:
        case ["nested", "parts", _, *inner]:
            cap = cap_of(strategy.body, strategy.max_iterations, inner)
        case ["multi_pass", "passes", focus]:
            cap = next(it.max_iterations for it in strategy.passes if it.focus == focus)
        case ["stepwise", "stages", name]:
            cap = next(it.max_iterations for it in strategy.stages if it.name == name)
        case ["nested" | "multi_pass" | "stepwise"]:
            cap = 1
        case ["self_consistency"]:
            cap = strategy.n
        case ["critique"]:
            cap = 0
        case [_, *unknown]:
            assert not unknown
    return cap


def numbers(model: CostlyDriver) -> Mapping[str, set[int]]:
    """Return which iterations were judged, by the path of their search."""
    found: dict[str, set[int]] = defaultdict(set)
    for move in model.moves:
        if isinstance(move, Judged):
            at = ITERATION.fullmatch(move.path)
            assert at
            found[at["search"] or ""].add(int(at["number"]))
    return found


def asked_of(model: CostlyDriver, prompt_request: type) -> Mapping[str, set[str]]:
    """Return the questions of a kind, re-asks left out, by the iteration that they are about."""
    found: dict[str, set[str]] = defaultdict(set)
    for move in model.moves:
        if isinstance(move, Ask) and isinstance(move.prompt_request, prompt_request):
            at = ITERATION.match(move.path)
            assert at
            found[at[0]].add(move.path.partition("/again/")[0])
    return found


@pytest.mark.parametrize("kind", [*OWN, *(f"nested {it}" for it in BODIES)])
@given(
    around=AROUND,
    has_draft=st.booleans(),
    said=lists_of(SAID, 40),
    scores=lists_of(range(101), 29),
    words=st.lists(WORDS, min_size=3, max_size=3),
)
def test_every_cap_holds(
    kind: str,
    around: Mapping[str, Any],
    has_draft: bool,
    said: list[str],
    scores: list[int],
    words: list[ReviewerReply],
) -> None:
    asked = spent_on(
        kind, has_draft=has_draft if has_draft in DRAFTS[kind] else not has_draft, **around
    )
    how, score = cycle(said), cycle(scores)

    def spoiled(move: Ask, reply: str) -> str | Refusal:
        refusals: dict[str, Refusal] = {
            "refused": StepError("model_refused", "no"),
            "stopped": Stopped(),
        }
        return {"read": reply, "unreadable": "", **refusals}[next(how)]

    model = CostlyDriver(
        iter(()),
        iter(()),
        reviewer=cycle(words),
        score=lambda _: next(score) / 100,
        spoiled=spoiled,
    )
    with suppress(Stopped, StepError):
        model.play(asked)

    strategy, critics = asked.strategy, asked.critics
    for search, judged in numbers(model).items():
        at = search.split("/") if search else []
        assert max(judged) <= cap_of(strategy, asked.max_iterations, at)
    for opinions in asked_of(model, Judge).values():
        assert len(opinions) <= len(critics.seats()) * critics.samples
    for answers in asked_of(model, Answer).values():
        assert len(answers) <= KINDS[kind]["max_questions"]
    steps = {path.split("/")[1] for path in model.paths if path.startswith("steps/")}
    assert len(steps) <= KINDS[kind].get("max_steps", 0)
    again = [path.rpartition("/again/") for path in model.paths]
    assert all(int(number) <= AGAIN for _, found, number in again if found)
    calls = [move for move in model.moves if isinstance(move, Ask)]
    assert len(calls) <= at_most(asked)
