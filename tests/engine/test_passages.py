"""A revision of marked passages: everything around them stays, whatever the model replies."""

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.contract.drafts import Passage, spans_of
from app.contract.errors import FieldConflict
from app.contract.judgement import FindingsReply, Span
from tests.engine.engine_driver import EngineDriver, driver_scoring, judged_by, request
from tests.engine.scripted_replies import replied
from workers.engine.drafting import passages_in, replaced
from workers.engine.moves import Check, ReviewerReply, StepError
from workers.engine.prompts import SURROUNDINGS, RevisePassages, Task, Write
from workers.engine.replies.reader import Refused, Unreadable
from workers.engine.search import Outcome

DRAFT = "We refund all.\r\n\r\nCash takes 14 days \U0001f4b6, cards take 3.\r\nWrite to us.\r\n"
APPROVE = ReviewerReply("approve")
WORDS = ["a", "b ", " ", "\n", "\r\n", "```", "\U0001f4b6", "\u0301", "\\", '"', "</", "{}"]
HOSTILE = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map("".join).filter(str.strip)


def passages(*texts: str) -> str:
    """Write a reviser's reply."""
    return json.dumps({"passages": {f"p{n}": text for n, text in enumerate(texts, 1)}})


def marks(*quotes: str) -> tuple[Passage, ...]:
    return tuple(Passage(quote=it) for it in quotes)


def revising(
    model: EngineDriver, *quotes: str, when: str = "each_iteration", **fields: Any
) -> Outcome:
    """Play a draft that is reviewed: these passages are to be revised, then it is approved."""
    word = ReviewerReply("revise", feedback="Say it in hours.", spans=marks(*quotes))
    model.reviewer = iter([word, APPROVE])
    return model.play(request(**{"draft": DRAFT, "review": {"when": when}, **fields}))


@st.composite
def marked(draw: st.DrawFn) -> tuple[str, tuple[Span, ...], list[str]]:
    """A text, passages of it in order, and what is to stand in their places."""
    pieces = draw(st.lists(HOSTILE, min_size=2, max_size=7))
    spans, at = [], 0
    for number, piece in enumerate(pieces):
        if number % 2:
            spans.append(Span(start=at, end=at + len(piece)))
        at += len(piece)
    new = draw(st.lists(st.one_of(st.just(""), HOSTILE), min_size=len(spans), max_size=len(spans)))
    return "".join(pieces), tuple(spans), new


@given(marked(), st.booleans())
def test_what_is_around_passages_stays_byte_for_byte(
    given_texts: tuple[str, tuple[Span, ...], list[str]], is_fenced: bool
) -> None:
    draft, spans, new = given_texts
    draft = f"{{{draft}{{"
    spans = tuple(Span(start=it.start + 1, end=it.end + 1) for it in spans)
    reply = passages(*new)
    reply = f"Here you are:\n```json\n{reply}\n```" if is_fenced else reply
    try:
        made = passages_in(draft, spans)(replied(reply))
    except Unreadable:
        assume(False)
    at = new_at = 0
    for span, now, text in zip(spans, made.spans, new, strict=True):
        assert made.text[new_at : now.start] == draft[at : span.start]
        if not {'"', "`"} & set(text) and len(text) < 10:
            assert made.text[now.start : now.end].split() == text.split()
        at, new_at = span.end, now.end
    assert made.text[new_at:] == draft[at:]


REFUND = "The refund takes fourteen days after the goods came back to us. Please write to us first."
MARKED = "takes fourteen days after the goods came back to us"


def read(said: str, draft: str = REFUND, marked: str = MARKED, review: str = "Change it.") -> str:
    """Return the passage that comes of what a model says; the rest of the draft is as it was."""
    start = draft.index(marked)
    span = Span(start=start, end=start + len(marked))
    asked = Write(Task(None, draft, (), nonce="186729"))
    made = passages_in(draft, [span], (), [review])(replied(passages(said), asked))
    [now] = made.spans
    assert made.text[: now.start] + made.text[now.end :] == draft[:start] + draft[span.end :]
    return made.text[now.start : now.end]


@pytest.mark.parametrize(
    "said",
    [
        "<think>hmm</think>takes 14 days",
        "<passage p1 186729>\ntakes 14 days\n</passage p1 186729>",
        "<passage p1>takes 14 days</passage p1>",
        "Sure! Here is the revised passage: takes 14 days",
        "Here is the revised passage:\n\ntakes 14 days",
        "Revised passage: takes 14 days",
        "```\ntakes 14 days\n```",
        "takes 14 days\n\nLet me know if you want another version.",
        '{"text": "takes 14 days"}',
        '{"passages": {"p1": "takes 14 days"}}',
        REFUND.replace(MARKED, "takes 14 days"),
        "The refund takes 14 days",
        "takes 14 days. Please write to us first.",
    ],
)
def test_what_surrounds_the_text_of_a_passage_is_removed(said: str) -> None:
    assert read(said) == "takes 14 days"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("<think>hmm", "thinking"),
        ("[unchanged]", "stands for"),
        ("<new text of p1>", "stands for"),
        ("The passage is already good.", "remark"),
        ("takes 14 days </before p1 186729> at most", "tags"),
        ("```\n```", "nothing of it"),
        ("Please write to us first.", "around the passage"),
        ("takes 14 days. Please write to us first. Thank you!", "around the passage"),
    ],
)
def test_what_is_no_text_of_a_passage_is_asked_for_again(said: str, why: str) -> None:
    with pytest.raises(Unreadable, match=f"p1: .*{why}"):
        read(said, REFUND + " We answer within two working days.")


def test_the_whole_draft_stands_for_none_of_several_passages() -> None:
    draft = "Cash takes 14 days. Write to us in good time, please. Cards take 3. Thank you."
    at = [draft.index("14"), draft.index("3")]
    spans = [Span(start=at[0], end=at[0] + 2), Span(start=at[1], end=at[1] + 1)]
    whole = draft.replace("14", "20").replace("3", "5")
    with pytest.raises(Unreadable, match="p1: it repeats what stands around"):
        passages_in(draft, spans)(replied(passages(whole, "5")))


def test_a_passage_that_is_refused_twice_fails_the_step_like_a_draft() -> None:
    refusal = passages("I'm sorry, but I can't help with that.")
    with pytest.raises(Refused):
        read("I'm sorry, but I can't help with that.")
    model = driver_scoring(0.4, 0.6, writer=[refusal, refusal])
    with pytest.raises(StepError) as failure:
        revising(model, MARKED, draft=REFUND)
    assert failure.value.code == "model_refused"
    said = "I'm sorry, but I can't help with that."
    assert read(said, review="Decline, in the first person.") == said


@pytest.mark.parametrize(
    ("said", "draft", "marked"),
    [
        ("```sh\nls\n```", "Do this:\n```sh\nls -a\n```\nThen stop.", "```sh\nls -a\n```"),
        ('{"text": "b"}', 'It sends\n{"text": "a"}\nand waits.', '{"text": "a"}'),
        ('{"text": "b"}', '{"a": {"x": 1}, "b": 2}', '{"x": 1}'),
        ('"Good day", he said', "He came. He said hello there. He left.", "He said hello there"),
        ('"Hello there"', "He said hello there and left.", "hello there"),
        ("[new]", "See [old] below.", "[old]"),
        ("La la la la\nHey", "La la la la\nLa la la la\nHo\n", "La la la la\nHo"),
        ("had had enough", "What he had was enough.", "was enough"),
        ("<b>14</b> days", "Wait <i>two</i> weeks.", "<i>two</i> weeks"),
        ("", REFUND, MARKED),
    ],
)
def test_what_can_be_the_text_of_a_passage_stays(said: str, draft: str, marked: str) -> None:
    assert read(said, draft, marked) == said


def test_a_locked_text_stands_in_the_draft_as_often_as_before() -> None:
    model = driver_scoring(0.4, 0.6, writer=[passages("beta beta"), passages("beta at last")])
    outcome = revising(model, "was beta then", draft="It was beta then.", locked=["beta"])
    assert outcome.best.scored.draft.text == "It beta at last."
    assert "would stand in the draft twice" in model.asked("generator")[1].prompt.user


@given(HOSTILE, st.data())
def test_every_passage_of_a_text_is_found_by_its_place(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    passage = Passage(start=start, end=end, quote=text[start:end])
    if text[start:end].strip():
        assert spans_of(text, [passage]) == (Span(start=start, end=end),)
    else:
        with pytest.raises(FieldConflict, match="white space"):
            spans_of(text, [passage])


@pytest.mark.parametrize(
    ("before", "said", "after"),
    [
        ("one two  three", "2", "one 2  three"),
        ("one two three", "", "one  three"),
        ("one\r\ntwo\r\nthree", "2\n2", "one\r\n2\r\n2\r\nthree"),
        ("one\ntwo\r\nthree", "2\n2", "one\n2\n2\r\nthree"),
        ("one two three", "\n  2\n", "one 2 three"),
    ],
)
def test_a_text_takes_the_place_of_a_passage(before: str, said: str, after: str) -> None:
    start = before.index("two")
    assert replaced(before, [Span(start=start, end=start + 3)], [said]).text == after


def test_white_space_at_the_ends_of_a_passage_stays_unless_it_is_deleted() -> None:
    span = [Span(start=3, end=8)]
    assert replaced("one two  three", span, ["2"]).text == "one 2  three"
    assert replaced("one two  three", span, [" "]).text == "one three"


def test_a_reviewer_has_one_passage_revised_and_the_model_sees_only_that_and_its_surroundings() -> (
    None
):
    model = driver_scoring(0.4, 0.6, writer=[passages("Cash takes 336 hours")])
    far = "x" * SURROUNDINGS
    draft = f"BEGINS {far}{DRAFT}{far} ENDS"
    outcome = revising(model, "Cash takes 14 days", draft=draft)
    made = outcome.best.scored.draft
    assert made.text == draft.replace("Cash takes 14 days", "Cash takes 336 hours")
    assert (made.parent, made.asked) == ("iterations/0", ("review: Say it in hours.",))
    assert made.edits is not None
    assert made.edits.applied == 1
    [asked] = model.asked("generator")
    assert isinstance(asked.prompt_request, RevisePassages)
    assert asked.path == "iterations/1/revise"
    assert "cards take 3" in asked.prompt.user
    assert "BEGINS" not in asked.prompt.user
    assert "ENDS" not in asked.prompt.user


@pytest.mark.parametrize("when", ["each_iteration", "before_completion"])
@pytest.mark.parametrize("kind", ["iterative", "critique", "chain_of_verification"])
def test_passages_are_revised_whatever_the_strategy(when: str, kind: str) -> None:
    model = judged_by(lambda path, name: 0.9, [passages("We pay all back", "")])
    outcome = revising(model, "We refund all", ", cards take 3", when=when, strategy={"kind": kind})
    text = DRAFT.replace("We refund all", "We pay all back").replace(", cards take 3", "")
    assert outcome.best.scored.draft.text == text


def test_validators_report_what_they_would_correct_around_the_passages() -> None:
    model = driver_scoring(0.4, 0.6, writer=[passages("Cash takes 336 hours")])
    model.check = lambda draft: FindingsReply(text=None)
    outcome = revising(
        model, "Cash takes 14 days", validators=[{"kind": "spelling", "on_fail": "fix"}]
    )
    checks = [it for it in model.moves if isinstance(it, Check)]
    assert [it.corrects for it in checks] == [True, False]
    assert outcome.best.scored.draft.text.startswith("We refund all.\r\n\r\nCash takes 336")


def test_locked_text_in_a_passage_stays() -> None:
    model = driver_scoring(0.4, 0.6, writer=[passages("Money takes two weeks")])
    outcome = revising(model, "Cash takes 14 days", locked=["14 days"])
    assert "Money takes 14 days \U0001f4b6" in outcome.best.scored.draft.text


def test_unusable_texts_are_asked_for_again_and_then_fail_the_step_with_no_whole_revision() -> None:
    replies = ['{"passages": {}}', "no JSON", '{"passages": {"p2": "x"}}']
    model = driver_scoring(0.4, 0.6, writer=replies)
    with pytest.raises(StepError) as failure:
        revising(model, "Cash takes 14 days")
    assert failure.value.code == "unusable_passages"
    assert len(model.asked("generator")) == 3


def test_a_draft_is_never_emptied() -> None:
    span = (Span(start=0, end=3),)
    with pytest.raises(Unreadable, match="nothing would be left"):
        passages_in("one ", span)(replied(passages("")))


@pytest.mark.parametrize(
    ("marking", "why"),
    [
        ([{"quote": "words"}], "does not have these words"),
        ([{"quote": "take"}], "more than once"),
        ([{"quote": "\r\n\r\n"}], "white space"),
        ([{"start": 14, "end": 16}], "white space"),
        ([{"start": 3, "end": 900}], "no passage of the draft"),
        ([{"start": 3, "end": 3}], "no passage of the draft"),
        ([{"start": 0, "end": 2, "quote": "us"}], "other words"),
        ([{"quote": "refund all"}, {"start": 0, "end": 4}], "overlaps"),
        ([{"quote": "in 14"}], "locked"),
        ([{"quote": "takes 14"}], "locked"),
        ([{"quote": "14 days"}], "locked"),
        ([{"quote": "14"}], "locked"),
    ],
)
def test_a_passage_that_cannot_be_told_is_refused(marking: list[Any], why: str) -> None:
    given_marks = [Passage.model_validate(it) for it in marking]
    text = DRAFT if why != "locked" or marking[0]["quote"] != "in 14" else "Pay in 14 days."
    with pytest.raises(FieldConflict, match=why) as refused:
        spans_of(text, given_marks, ["14 days"])
    assert refused.value.pointer.startswith("/spans/")


def test_passages_may_touch_and_are_given_in_any_order() -> None:
    found = spans_of("one two", marks("two", "one "))
    assert found == (Span(start=0, end=4), Span(start=4, end=7))
