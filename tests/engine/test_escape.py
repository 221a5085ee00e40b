"""Before a search ends at a standstill, one draft is made in another way, once per refinement."""

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import pytest

from app.contract.status import StopReason
from tests.engine.engine_driver import EngineDriver, driver_scoring, request, verdict
from tests.engine.scripted_replies import said
from tests.engine.test_every_strategy import asked_of
from workers.engine.moves import ReviewerReply, StepError, Stopped
from workers.engine.pipeline import strategy_for
from workers.engine.search import Outcome

TEXT = "the quick brown fox jumps over the lazy dog and runs away again"
OTHER = "something else altogether that shares no words with what came before it"
GONE = StepError("model_refused", "gone")


def played(
    *scores: float | StepError | Stopped, writer: list[Any] | None, **fields: Any
) -> tuple[EngineDriver, Outcome]:
    """Play with a critic without noise: the highest score is the best draft."""
    model = driver_scoring(*scores, writer=writer)
    asked = request(**{"max_iterations": 9, **fields})
    return model, model.run(strategy_for(asked, "482913", is_exact=True), asked.limits())


def ways(model: EngineDriver) -> list[str]:
    """What wrote each draft, and at which temperature."""
    asks = model.asked("generator")
    return [f"{it.path.rpartition('/')[2]} {it.prompt.temperature or ''}".strip() for it in asks]


def test_a_text_written_from_the_task_is_written_anew_from_the_same_findings() -> None:
    model, outcome = played(0.5, 0.5, 0.9, writer=[TEXT, TEXT, OTHER])
    assert ways(model) == ["draft", "revise", "draft 1.0"]
    told = model.asked("generator")[-1].prompt.user
    assert "quality: so (not met yet)" in told
    assert TEXT not in told
    best = outcome.best.scored.draft
    assert (best.text, best.escape, best.parent) == (OTHER, "fresh_draft", None)
    assert (outcome.passed, outcome.reason) == (True, StopReason.THRESHOLD_MET)


def test_a_given_draft_is_revised_at_a_higher_temperature() -> None:
    model, outcome = played(0.5, 0.5, 0.9, writer=[TEXT, OTHER], draft=TEXT)
    assert ways(model) == ["revise", "revise 1.0"]
    assert TEXT in model.asked("generator")[-1].prompt.user
    assert outcome.best.scored.draft.escape == "temperature"
    assert outcome.passed


def test_it_ends_as_it_would_have_ended_if_that_is_no_better() -> None:
    model, outcome = played(0.5, 0.5, 0.4, writer=[TEXT, TEXT, OTHER])
    assert len(model.asked("generator")) == 3
    assert (outcome.reason, outcome.best.scored.draft.text) == (StopReason.STABLE, TEXT)


def test_it_goes_on_from_a_better_draft_and_ends_at_the_next_standstill() -> None:
    model, outcome = played(0.5, 0.5, 0.6, 0.6, writer=[TEXT, TEXT, OTHER, OTHER])
    assert ways(model) == ["draft", "revise", "draft 1.0", "revise"]
    assert (outcome.reason, outcome.best.scored.score) == (StopReason.STABLE, 0.6)


def test_it_says_why_it_stood_still_first_if_that_brings_the_same_text_again() -> None:
    model = driver_scoring(0.5, 0.5, 0.5, writer=[TEXT, TEXT, TEXT])
    assert model.play(request(max_iterations=9)).reason is StopReason.STABLE


@pytest.mark.parametrize(
    ("scores", "writer", "reason"),
    [
        ((0.5, 0.4, 0.3), None, StopReason.PLATEAU),
        ((0.5, 0.5), [TEXT, TEXT, OTHER], StopReason.STABLE),
        ((0.5, 0.5, 0.5), [TEXT, OTHER, TEXT, OTHER], StopReason.OSCILLATING),
    ],
)
def test_every_standstill_is_one(
    scores: tuple[float, ...], writer: list[str] | None, reason: StopReason
) -> None:
    patience = 2 if reason is StopReason.PLATEAU else 50
    for escape, drafts in ((False, len(scores)), (True, len(scores) + 1)):
        stop = {"patience": patience, "escape": escape}
        model, outcome = played(*scores, 0.2, writer=writer, stop=stop)
        assert (outcome.reason, len(model.asked("critic"))) == (reason, drafts)


@pytest.mark.parametrize("last", [2, 3])
def test_it_is_not_tried_where_the_cap_leaves_no_room(last: int) -> None:
    model, outcome = played(0.5, 0.5, 0.4, writer=[TEXT, TEXT, OTHER], max_iterations=last)
    assert len(model.asked("generator")) == last
    assert outcome.reason is StopReason.MAX_ITERATIONS


@pytest.mark.parametrize("at", ["generator", "critic"])
def test_a_failure_of_it_ends_the_search_and_not_the_refinement(at: str) -> None:
    writer = [TEXT, TEXT, GONE if at == "generator" else OTHER]
    _, outcome = played(0.5, 0.5, GONE, writer=writer)
    assert (outcome.reason, outcome.best.scored.score) == (StopReason.STABLE, 0.5)


def test_a_stop_during_it_is_why_it_ends() -> None:
    _, outcome = played(0.5, 0.5, writer=[TEXT, TEXT, Stopped()])
    assert (outcome.reason, outcome.best.scored.score) == (None, 0.5)


def test_a_reviewers_wish_goes_before_it() -> None:
    model = driver_scoring(0.5, 0.5, 0.5, writer=[TEXT, TEXT, TEXT])
    words = [ReviewerReply("rate"), ReviewerReply("revise", "Shorter."), ReviewerReply("reject")]
    model.reviewer = iter(words)
    outcome = model.play(request(max_iterations=9, review={"when": "each_iteration"}))
    assert ways(model) == ["draft", "revise", "revise"]
    assert outcome.reason is StopReason.REJECTED


STANDING = ["iterative", "chain_of_verification", "reasoning_revision", "plan_execute", "best_of_n"]


@pytest.mark.parametrize("kind", ["multi_pass", "stepwise", "nested", *STANDING])
def test_once_per_refinement_and_only_for_the_whole_text(kind: str) -> None:
    chained = f"1. {TEXT}\n2. So it is."
    model = EngineDriver(iter(()), repeat(chained))
    model.critic = judging(model)
    model.play(asked_of(kind, max_iterations=9, stop={"max_similarity": 0.5}))
    tried = [it.path for it in model.asked("generator") if it.prompt.temperature == 1.0]
    sampled = [it for it in tried if kind == "best_of_n" and it.endswith("/draft")][:3]
    assert len(tried) - len(sampled) == (kind in STANDING)


def judging(model: EngineDriver) -> Iterator[str]:
    while True:
        asked = model.asked("critic")[-1].prompt_request
        names = [it.name for it in asked.task.criteria]
        yield said(asked) or verdict(*[0.5] * len(names), names=names)
