"""Samples and panels: who is asked, under which key, and who has to have a say."""

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from app.contract.judgement import Critics
from app.contract.strategies import STRATEGIES
from tests.engine.engine_driver import EngineDriver, Refusal, drafts, request, verdict
from workers.engine.moves import Judged, Scored, StepError, Stopped, about
from workers.engine.search import Outcome

DRAFT = "We refund within 14 days."
PANEL: dict[str, Any] = {"panel": [{"name": "reader"}, {"name": "lawyer", "adversarial": True}]}
TWO = [{"name": "clear"}, {"name": "tone"}]
GONE = StepError("model_unavailable", "gone")


def judged_by(replies: Mapping[str, Any], **critics: Any) -> tuple[EngineDriver, Outcome]:
    """Judge DRAFT once; a critic answers by the key of its step, and again with what is left."""
    left = {
        key: list(reply) if isinstance(reply, list) else [reply] for key, reply in replies.items()
    }

    def critic() -> Any:
        while True:
            key = model.moves[-1].path.removeprefix("iterations/0/").split("/again")[0]
            yield left[key].pop(0)

    model = EngineDriver(critic(), drafts())
    asked = request(draft=DRAFT, strategy={"kind": "critique"}, criteria=TWO, critics=critics)
    return model, model.play(asked)


def sampled(*scores: float | Refusal | None) -> Scored:
    """Judge DRAFT with one sample for each score of its clarity."""
    keys = ["critique", *(f"critique/{number}" for number in range(2, len(scores) + 1))]
    said = [it if isinstance(it, Exception) else both(it) for it in scores]
    return judged_by(dict(zip(keys, said, strict=True)), samples=len(scores))[1].best.scored


def both(clear: float | None) -> str:
    """Write a critic's reply; the tone is always 0.5."""
    return verdict(clear, 0.5, names=("clear", "tone"))


@pytest.mark.parametrize(
    ("scores", "median", "spread"),
    [
        ((0.4,), 0.4, None),
        ((0.9, 0.2, 0.6), 0.6, 0.7),
        ((0.9, 0.2, 0.6, 0.5), 0.55, 0.7),
        ((0.7, 0.7), 0.7, 0.0),
        ((None, 0.4, 0.8), 0.6, 0.4),
        ((None, 0.4), 0.4, None),
        ((0.5, GONE, 0.9), 0.7, 0.4),
        ((Stopped(), 0.5, StepError("x", "y")), 0.5, None),
    ],
)
def test_the_median_of_those_who_measured_counts_and_the_spread_is_told(
    scores: tuple[float | Refusal | None, ...], median: float, spread: float | None
) -> None:
    judged = sampled(*scores)
    assert (judged.scores[0].score, judged.scores[0].spread) == (median, spread)
    assert judged.score == round((median + 0.5) / 2, 6)


def test_each_sample_begins_with_another_criterion_and_its_scores_are_told_apart() -> None:
    scores = '{"scores": {"c1": 0.4, "c2": 0.8}}', '{"scores": {"c2": 0.8, "c1": 0.4}}'
    keys = ["critique", "critique/2", "critique/3"]
    model, outcome = judged_by(dict(zip(keys, (*scores, scores[0]), strict=True)), samples=3)
    prompts = [it.prompt for it in model.asked("critic")]
    schemas: list[Any] = [it.schema for it in prompts]
    orders = [list(it["properties"]["scores"]["properties"]) for it in schemas]
    assert orders == [["c1", "c2"], ["c2", "c1"], ["c1", "c2"]]
    assert "in the order c2, c1" in prompts[1].user.rsplit("\n\n", 1)[1]
    assert len({it.user[: it.shared] for it in prompts}) == 1
    assert len({about(it) for it in model.asked("critic")}) == 1
    assert {it.criterion: it.score for it in outcome.best.scored.scores} == {
        "clear": 0.4,
        "tone": 0.8,
    }


def test_each_sample_is_a_step_of_its_own_and_so_is_each_critic() -> None:
    said = both(0.5)
    one, _ = judged_by(dict.fromkeys(["critique", "critique/2"], said), samples=2)
    assert one.paths == [
        "iterations/0/critique",
        "iterations/0/critique/2",
        "iterations/0",
    ]
    keys = [f"critique/{it}" for it in ("reader", "reader/2", "lawyer", "lawyer/2")]
    panel, _ = judged_by(dict.fromkeys(keys, said), samples=2, **PANEL)
    assert panel.paths == [*(f"iterations/0/{key}" for key in keys), "iterations/0"]
    assert [ask.seat for ask in panel.asked("critic")] == ["critic/reader"] * 2 + [
        "critic/lawyer"
    ] * 2


def test_a_sample_that_cannot_be_read_is_asked_for_again_by_itself() -> None:
    replies = {"critique": both(0.4), "critique/2": ["no", both(0.6)]}
    model, outcome = judged_by(replies, samples=2)
    assert "iterations/0/critique/2/again/1" in model.paths
    assert outcome.best.scored.scores[0].score == 0.5


def test_a_critic_of_the_panel_that_has_no_say_fails_the_step() -> None:
    replies = {"critique/reader": both(0.9), "critique/lawyer": ["no", "no", "no"]}
    with pytest.raises(StepError) as failed:
        judged_by(replies, **PANEL)
    assert failed.value.code == "unreadable_critique"


def test_samples_that_all_failed_fail_the_step() -> None:
    with pytest.raises(StepError, match="gone"):
        sampled(GONE, GONE)


def test_a_floor_is_held_against_the_median() -> None:
    criteria = [{"name": "quality", "floor": 0.6}]
    critic = iter([verdict(0.9), verdict(0.2), verdict(0.5)])
    body = request(draft=DRAFT, strategy={"kind": "critique"}, criteria=criteria)
    body = body.model_copy(update={"critics": Critics(samples=3)})
    assert not EngineDriver(critic, drafts()).play(body).best.scored.floors_met


def test_the_parts_of_a_panel_are_told_and_nothing_else_differs() -> None:
    panel: list[dict[str, Any]] = [
        {"name": "plain"},
        {"name": "lawyer", "perspective": "A consumer lawyer."},
        {"name": "devil", "adversarial": True},
    ]
    replies = {f"critique/{it['name']}": both(0.5) for it in panel}
    model, _ = judged_by(replies, panel=panel)
    plain, lawyer, devil = (ask.prompt for ask in model.asked("critic"))
    assert "A consumer lawyer." in lawyer.user
    before, closing = plain.user.rsplit("\n\n", 1)
    assert lawyer.user.startswith(before)
    assert lawyer.user.endswith(closing)
    assert "look for what is wrong" in devil.user
    assert devil.user.startswith(before)
    assert lawyer.system == devil.system == plain.system
    assert lawyer.schema == devil.schema == plain.schema
    assert "look for what is wrong" not in lawyer.user


def test_the_reviser_is_told_what_every_critic_found() -> None:
    found = {"kind": "quality", "message": "Which days?", "quote": "14 days"}
    critic = iter([verdict(0.4), verdict(0.5, findings=[found]), verdict(0.9), verdict(0.9)])
    model = EngineDriver(critic, drafts())
    model.play(request(draft=DRAFT, critics=PANEL))
    assert 'quality at "14 days": Which days?' in model.asked("generator")[0].prompt.user
    first = next(it.judgement.scored for it in model.moves if isinstance(it, Judged))
    assert first.scores[0].spread == 0.1


@pytest.mark.parametrize(
    "critics",
    [
        {"samples": 0},
        {"samples": 10},
        {"panel": [{"name": "a"}, {"name": "a"}]},
        {"panel": [{"name": "2"}]},
        {"panel": [{"name": "again"}]},
        {"panel": [{"name": "A/b"}]},
        {"panel": [{"name": f"n{number}"} for number in range(6)]},
        {"panel": [{"name": "a", "perspective": "x" * 501}]},
    ],
)
def test_a_panel_that_cannot_be_told_apart_or_is_too_large_is_refused(critics: Any) -> None:
    with pytest.raises(ValidationError):
        request(critics=critics)


UNCRITICAL = [kind for kind, it in STRATEGIES.items() if not it.judges_criteria]


@pytest.mark.parametrize("kind", UNCRITICAL)
def test_a_strategy_without_critics_takes_none(kind: str) -> None:
    fields: dict[str, Any] = {"validators": [{"kind": "length", "max_words": 9}]}
    with pytest.raises(ValidationError, match="`critics` is not supported"):
        request(strategy={"kind": kind}, critics={"samples": 2}, max_iterations=9, **fields)
