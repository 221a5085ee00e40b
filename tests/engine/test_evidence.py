"""What a critic quotes is shown only when it stands in the draft, as it stands there."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.judgement import QUALITY, CriterionScore, Critique, Finding, Quotation, Span
from tests.engine.engine_driver import driver_scoring, request
from tests.engine.scripted_replies import replied
from workers.engine.judging import MOST_EVIDENCE, critique_reader
from workers.engine.moves import Judged
from workers.engine.replies.likeness import LONGEST, Source
from workers.engine.replies.reader import Unreadable

DRAFT = "Ü𝄞 We refund\n  within 14 days. We refund nothing else."


def at(start: int, end: int, draft: str = DRAFT) -> Quotation:
    return Quotation(quote=draft[start:end], span=Span(start=start, end=end))


def critique(score: Any = 0.5, findings: Any = (), **said: Any) -> Critique:
    given = {"criterion": "quality", "score": score, "reason": "so", **said}
    reply = json.dumps({"scores": [given], "findings": list(findings)})
    return critique_reader((QUALITY,), DRAFT)(replied(reply))


def scored(evidence: Any) -> CriterionScore:
    (score,) = critique(evidence=evidence).scores
    return score


def finding(**said: Any) -> Finding:
    (found,) = critique(findings=[{"kind": "quality", "message": "no", **said}]).findings
    return found


@pytest.mark.parametrize("score", [True, False])
def test_a_truth_value_is_no_score(score: bool) -> None:
    with pytest.raises(Unreadable, match="is not a score from 0 to 1"):
        critique(score)


def test_a_quotation_has_its_place_in_code_points() -> None:
    assert scored(["within 14 days"]).evidence == (at(15, 29),)


def test_white_space_may_differ_and_the_quotation_is_what_stands_in_the_draft() -> None:
    given = scored(["We  refund within 14\tdays.\n"])
    assert given.evidence == (Quotation(quote="We refund\n  within 14 days.", span=at(3, 30).span),)
    assert given.unsupported == 0


def test_what_does_not_stand_in_the_draft_is_dropped_and_counted() -> None:
    given = scored(["within 30 days", "we refund", "14 days", "14 days"])
    assert [it.quote for it in given.evidence] == ["14 days"]
    assert given.unsupported == 2


@pytest.mark.parametrize(
    ("said", "unsupported"),
    [(None, 0), ([], 0), (7, 1), ({"why": "so"}, 1), ([None, 1, [], {}, ""], 4), ("no such", 1)],
)
def test_nonsense_among_the_evidence_leaves_the_verdict_readable(
    said: Any, unsupported: int
) -> None:
    given = scored(said)
    assert (given.score, given.evidence, given.unsupported) == (0.5, (), unsupported)


def test_a_verdict_without_evidence_is_read_as_before() -> None:
    (given,) = critique().scores
    assert (given.score, given.reason, given.evidence) == (0.5, "so", ())


def test_no_more_than_some_quotations_are_looked_up() -> None:
    assert scored(["no such"] * 99).unsupported == MOST_EVIDENCE


def test_a_finding_is_anchored_to_its_quotation() -> None:
    found = finding(quote="14  days", fix="Say 30.")
    assert (found.quote, found.span, found.fix) == ("14 days", at(22, 29).span, "Say 30.")


def test_a_span_that_disagrees_with_the_quotation_loses_to_it() -> None:
    assert finding(quote="14 days", span={"start": 0, "end": 2}).span == at(22, 29).span


def test_a_span_that_agrees_chooses_among_the_places() -> None:
    second = DRAFT.rindex("We refund")
    place = {"start": second, "end": second + 9}
    assert finding(quote="We refund", span=place).span == at(second, second + 9).span
    assert finding(quote="We refund").span == at(3, 12).span


def test_a_false_quotation_has_no_place() -> None:
    found = finding(quote="30 days", span={"start": 0, "end": 2})
    assert (found.quote, found.span) == (None, None)


def test_a_finding_without_a_quotation_keeps_a_span_that_lies_in_the_draft() -> None:
    assert finding(span={"start": 0, "end": 2}).span == at(0, 2).span
    assert finding(span={"start": 0, "end": 9_999}).span is None


def test_a_long_quotation_is_cut() -> None:
    quoted = Source("x" * 5_000).quotation("x" * 4_000)
    assert quoted == at(0, LONGEST, "x" * 5_000)


@given(st.text("ab \n\t\u00a0é𝄞", max_size=60), st.data())
def test_any_passage_is_found_whatever_its_white_space(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    passage = text[start : data.draw(st.integers(start, len(text)))]
    words = passage.split()
    found = Source(text).quotation(" \n ".join(words))
    if not words:
        assert found is None
        return
    assert found is not None
    assert found.quote.split() == words
    assert found.quote == text[found.span.start : found.span.end]


def test_what_was_found_is_told_to_the_reviser_and_to_the_journal() -> None:
    reply = {
        "scores": [{"criterion": "quality", "score": 0.4, "evidence": ["We refund."]}],
        "findings": [{"kind": "quality", "message": "too short", "quote": "We refund."}],
    }
    model = driver_scoring(json.dumps(reply), 0.9)
    model.play(request(draft="We refund."))
    assert 'quality at "We refund.": too short' in model.asked("generator")[0].prompt.user
    (first, _) = [it.judgement.scored for it in model.moves if isinstance(it, Judged)]
    assert first.scores[0].evidence == (at(0, 10, "We refund."),)
    assert first.critique.findings[0].span == Span(start=0, end=10)


@pytest.mark.parametrize("twice", ['"score": 0.1, "score": 0.99', '"score": 0.99, "score": 0.1'])
def test_a_score_that_is_given_twice_is_asked_for_again(twice: str) -> None:
    reply = '{"scores": [{"criterion": "quality", "reason": "so", ' + twice + "}]}"
    with pytest.raises(Unreadable, match="'score' stands twice"):
        critique_reader((QUALITY,), DRAFT)(replied(reply))
