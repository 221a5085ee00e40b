"""The verdict: scores that were measured, findings that point to the words they are about."""

from itertools import pairwise

import pytest

from app.contract.judgement import QUALITY, Criterion, Critique
from tests.editor.texts_to_edit import ROUGH, score_of
from workers.editor.critic import MOST_FINDINGS, judged

ROUGH_TEXT = ROUGH[0].read_text()
GERMAN = (
    "Wir haben Ihre Anfrage vom vierten März erhalten und bedanken uns dafür. Leider können wir"
    " Ihnen das Gerät nicht vor Ende des Monats schicken, weil unser Lieferant Ferien macht."
)


def verdict(text: str, *names: str) -> Critique:
    return judged(text, tuple(Criterion(name=name) for name in names))


def test_every_finding_quotes_the_words_at_its_span() -> None:
    findings = judged(ROUGH_TEXT, (QUALITY,)).findings
    assert len(findings) > 20
    for finding in findings:
        assert finding.span is not None
        assert finding.quote == ROUGH_TEXT[finding.span.start : finding.span.end]


def test_positions_count_code_points() -> None:
    text = "Ü𝄞 🙂 — we recieve it."
    (finding,) = verdict(text, "spelling").findings
    assert finding.span is not None
    assert text[finding.span.start : finding.span.end] == "recieve"


def test_a_finding_names_the_criterion_that_it_counts_for_most() -> None:
    criteria = (Criterion(name="spelling", weight=5), QUALITY)
    findings = judged("We recieve it. In order to go, go.", criteria).findings
    assert {(it.quote, it.kind) for it in findings} == {
        ("recieve", "spelling"),
        ("In order to", "quality"),
    }


def test_the_worst_findings_come_first_and_there_are_not_too_many() -> None:
    text = "We recieve it. " * 50 + "We utilize it. " * 50
    critique = judged(text, (QUALITY,))
    assert len(critique.findings) == MOST_FINDINGS
    assert critique.findings[0].quote == "recieve"
    assert any("50" in it for it in critique.weaknesses)


def test_a_criterion_that_cannot_be_measured_has_no_score_and_says_why() -> None:
    critique = verdict("We like it.", "accuracy", "spelling")
    assert [it.score for it in critique.scores] == [None, 1]
    assert "Not measured" in critique.scores[0].reason


def test_quality_says_that_the_task_itself_is_not_measured() -> None:
    assert "is not measured" in judged("We like it.", (QUALITY,)).scores[0].reason


@pytest.mark.parametrize(
    "text",
    [
        GERMAN,
        "我们今天不去了。",
        "```\ncode()\n```",
        "12 34 !",
        " ",
        "asdfgh qwertz hjkl yxcvb nmpoi",
        "The flurb grintle was zorped by the quanx in a brindle of the snorf.",
        "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod.",
        "El archivo no se encuentra en la carpeta indicada.",
    ],
)
def test_what_is_not_english_prose_is_not_scored(text: str) -> None:
    assert verdict(text, "quality", "clarity").scores[0].score is None
    assert verdict(text, "quality").findings == ()


def test_a_length_is_counted_in_any_language() -> None:
    at_most = Criterion(name="length", description="at most 20 words")
    assert score_of(GERMAN[:60], at_most) == 1
    assert 0.1 < score_of(GERMAN, at_most) < 0.9


def test_each_slip_lowers_the_score_a_little() -> None:
    good = "We send the parcel and you get it soon after. " * 10
    texts = [good.replace("get it", "recieve it", count) for count in range(5)]
    scores = [score_of(text) for text in texts]
    assert all(0 < one - two < 0.15 for one, two in pairwise(scores))


def test_one_slip_does_not_make_a_short_text_worthless() -> None:
    assert score_of("We recieve it.") > 0.5


def test_a_school_grade_is_met_or_missed_by_degrees() -> None:
    hard = "The comprehensive restructuring of our organization is a communication opportunity. "
    easy = "We sit on the mat. The cat sits on it too. "
    eighth = Criterion(name="readability", description="8th grade")
    assert score_of(easy * 5, eighth) == 1
    assert score_of(hard * 5, eighth) < score_of(f"{hard * 4}{easy * 2}", eighth) < 1


def test_strengths_and_suggestions_say_what_was_counted() -> None:
    critique = judged("In order to go, go now. We all go.", (QUALITY,))
    assert "There are no long sentences." in critique.strengths
    assert any('"to"' in it for it in critique.suggestions)


def test_the_same_text_gets_the_same_verdict() -> None:
    assert judged(ROUGH_TEXT, (QUALITY,)) == judged(ROUGH_TEXT, (QUALITY,))


def test_the_evidence_stands_in_the_draft_and_is_what_a_score_was_lost_for() -> None:
    scores = verdict(ROUGH_TEXT, "conciseness", "spelling", "warmth").scores
    conciseness, spelling, warmth = (it.evidence for it in scores)
    assert (len(conciseness), len(spelling), warmth) == (3, 3, ())
    for it in (*conciseness, *spelling):
        assert it.quote == ROUGH_TEXT[it.span.start : it.span.end]
    assert not {it.quote for it in conciseness} & {it.quote for it in spelling}


@pytest.mark.parametrize("text", ["a", "No.", "Thank you.", "No, no, no, no, no."])
def test_what_says_too_little_is_not_scored_and_the_reason_says_so(text: str) -> None:
    said = verdict(text, "quality", "clarity", "spelling", "conciseness")
    assert {it.score for it in said.scores} == {None}
    assert all("fewer than 3 different words" in it.reason for it in said.scores)
    assert score_of(text, Criterion(name="length", description="at most 20 words")) == 1


@pytest.mark.parametrize(
    "text", ["We like it.", "Your refund is on its way", "Run kubectl with istio on it."]
)
def test_a_short_answer_and_a_subject_line_are_scored(text: str) -> None:
    assert all(it.score is not None for it in verdict(text, "quality", "clarity").scores)
