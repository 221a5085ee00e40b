"""Several opinions become one: medians, and whatever any of them found."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.judgement import QUALITY, Criterion, Critique
from tests.engine.scripted_replies import replied
from workers.engine.judging import critique_reader, merged

DRAFT = "We refund within 14 days."
CRITERIA = (QUALITY, Criterion(name="tone"))


def opinion(score: float | None, by: str = "critic", **said: Any) -> Critique:
    """Read a critique of DRAFT on quality and tone, of which tone is never measured."""
    given = {"criterion": "quality", "score": score, "reason": f"because {score}"}
    given["evidence"] = said.pop("evidence", [])
    reply = {"scores": [given, {"criterion": "tone", "score": 0.5}], **said}
    return critique_reader(CRITERIA, DRAFT, by)(replied(json.dumps(reply)))


@pytest.mark.parametrize(
    ("scores", "reason"),
    [((0.9, 0.5, 0.1), "because 0.5"), ((0.8, 0.4), "because 0.4"), ((None, 0.7), "because 0.7")],
)
def test_the_reason_is_that_of_the_opinion_nearest_the_median_the_lowest_on_a_tie(
    scores: tuple[float | None, ...], reason: str
) -> None:
    quality, _ = merged([opinion(it) for it in scores], CRITERIA).scores
    assert quality.reason == reason


def test_a_criterion_that_no_critic_measured_stays_unmeasured() -> None:
    quality, tone = merged([opinion(None), opinion(None)], CRITERIA).scores
    assert (quality.score, quality.spread, quality.reason) == (None, None, "because None")
    assert (tone.score, tone.spread) == (0.5, 0.0)


def test_what_was_found_is_merged_without_repeats_and_says_who_found_it() -> None:
    days = {"kind": "quality", "message": "Which days?", "quote": "14 days"}
    again = {**days, "message": "Are these working days?"}
    vague = {"kind": "quality", "message": "It is  vague."}
    first = opinion(0.5, "critic/reader", findings=[days, vague], strengths=["Short."])
    second = opinion(
        0.6,
        "critic/lawyer",
        findings=[{**vague, "message": "it is vague."}, again, {**days, "quote": "We refund"}],
        strengths=["short.", "Plain."],
        suggestions=["Say which days."],
    )
    both = merged([first, second], CRITERIA)
    assert [(it.source, it.message, it.quote) for it in both.findings] == [
        ("critic/reader", "Which days?", "14 days"),
        ("critic/lawyer", "it is vague.", None),
        ("critic/lawyer", "Which days?", "We refund"),
    ]
    assert both.strengths == ("Short.", "Plain.")
    assert both.suggestions == ("Say which days.",)


def test_evidence_is_gathered_from_all_and_what_is_unsupported_adds_up() -> None:
    opinions = [
        opinion(0.5, evidence=["14 days", "30 days"]),
        opinion(0.9, evidence=["We refund", "14  days", "never"]),
    ]
    quality, _ = merged(opinions, CRITERIA).scores
    assert [it.quote for it in quality.evidence] == ["14 days", "We refund"]
    assert quality.unsupported == 2


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=2, max_size=9), st.randoms())
def test_the_order_of_the_opinions_changes_no_score(scores: list[float | None], luck: Any) -> None:
    opinions = [opinion(it) for it in scores]
    shuffled = luck.sample(opinions, len(opinions))
    (one, _), (other, _) = (merged(it, CRITERIA).scores for it in (opinions, shuffled))
    assert (one.score, one.spread) == (other.score, other.spread)
    measured = [it for it in scores if it is not None]
    assert (one.score is None) is (not measured)
    if one.score is not None:
        assert min(measured) - 1e-6 <= one.score <= max(measured) + 1e-6
