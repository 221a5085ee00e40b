"""What is certain in a reply is read, everything else is asked for again, nothing is guessed."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.contract.judgement import Criterion
from tests.engine.engine_driver import driver_scoring, request
from tests.engine.replies.article_table import article_table
from tests.engine.replies.case import (
    CRITERIA,
    DRAFT,
    Case,
    Refuses,
    is_as_expected,
    outcome_of,
)
from tests.engine.replies.table import CASES, table
from tests.engine.replies.tasks import MESSAGES, ORDINARY, REFUSING
from tests.engine.scripted_replies import replied
from workers.engine.asking import text_in
from workers.engine.judging import critique_reader
from workers.engine.moves import StepError
from workers.engine.prompts import Revise, Task, Write
from workers.engine.replies.reader import (
    NO_CRITIQUE,
    ReplyModel,
    ReplyReader,
    Unparsable,
    Unreadable,
    first_flaw,
    json_values_in,
)

PAGE = (Path(__file__).parents[2] / "docs" / "data" / "replies.txt").read_text()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(0, 1) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


@pytest.mark.parametrize("case", CASES, ids=lambda it: f"{it.family}, {it.kind}: {it.name}")
def test_a_reply_is_read_as_the_corpus_says(case: Case) -> None:
    outcome = outcome_of(case)
    assert is_as_expected(case, outcome), outcome


def test_the_corpus_has_at_least_150_different_replies() -> None:
    assert len({(it.kind, it.raw, it.task, it.base) for it in CASES}) == len(CASES) >= 150


def test_the_page_on_replies_has_the_table_of_the_corpus() -> None:
    assert table(CASES) in PAGE
    assert article_table() in PAGE


def shapes(of: type[ReplyModel] = ReplyModel) -> Iterator[type[ReplyModel]]:
    """Every form of a reply that the engine reads."""
    for shape in of.__subclasses__():
        yield shape
        yield from shapes(shape)


NO_WORD_OF_JSON = re.compile(r"instance of|dictionar|tuple|\[|Value error|\b_[A-Z]")


def test_what_is_wrong_with_a_reply_names_no_class_and_no_type_of_python() -> None:
    said = list[tuple[str, str]]()
    flaws: tuple[object, ...] = (False, "a", 7, [7], ["a"], {"a": []})
    for shape in shapes():
        for wrong in flaws:
            try:
                shape.model_validate(dict.fromkeys(shape.model_fields, wrong))
            except ValidationError as error:
                said.append((shape.__name__, first_flaw(error)))
    assert len(said) > 50
    assert [it for it in said if NO_WORD_OF_JSON.search(it[1])] == []


@given(
    VALUES.filter(lambda it: isinstance(it, dict | list)), st.sampled_from(["", "So: ", "```\n"])
)
def test_json_is_read_as_json_whatever_stands_before_it(value: object, before: str) -> None:
    assert list(json_values_in(before + json.dumps(value))) == [value]


@given(st.text(alphabet="{}[]\"'`:,.\\/#ab01 \n“”", max_size=60))
def test_any_text_has_values_or_says_why_not(text: str) -> None:
    for it in json_values_in(text):
        assert isinstance(it, dict | list | Unparsable)


@given(st.text(max_size=200) | VALUES.map(json.dumps))
def test_a_text_that_is_read_is_read_the_same_again(text: str) -> None:
    try:
        once = text_in(replied(text))
    except Unreadable:
        return
    assert text_in(replied(once)) == once


def test_half_a_line_end_of_windows_is_not_left_at_the_end() -> None:
    task = Task("Keep these lines:\r\nAsk us.\r\n", None, (), "482913")
    assert text_in(ReplyReader("Ask us.\r\nOr call.\r\n", Write(task))) == "Ask us.\r\nOr call."


@given(st.text() | VALUES.map(json.dumps))
def test_a_critique_that_is_read_has_scores_from_0_to_1(text: str) -> None:
    try:
        critique = critique_reader(CRITERIA, DRAFT)(replied(text))
    except Unreadable:
        return
    scores = [it.score for it in critique.scores]
    assert len(scores) == len(CRITERIA)
    assert all(0 <= it <= 1 for it in scores if it is not None)


REFUSAL = "I'm sorry, but I can't help with that."


def test_a_refusal_is_asked_for_again_and_is_never_the_draft() -> None:
    model = driver_scoring(0.9, writer=[REFUSAL, "We refund within 14 days."])
    outcome = model.play(request(max_iterations=1))
    assert outcome.best.scored.draft.text == "We refund within 14 days."
    assert model.paths[:2] == ["iterations/1/draft", "iterations/1/draft/again/1"]


def test_a_model_that_refuses_twice_fails_the_step_as_refused() -> None:
    model = driver_scoring(writer=[REFUSAL, REFUSAL])
    with pytest.raises(StepError) as failed:
        model.play(request(max_iterations=1))
    assert failed.value.code == "model_refused"
    assert len(model.asked("generator")) == 2


REFUSALS = [it for it in CASES if it.family == "refusal"]
MAIL = "Dear Ms Lee,\n\nwe refund you within 14 days.\n\nKind regards\nSam"


@pytest.mark.parametrize("base", [None, MAIL], ids=["first", "revision"])
@pytest.mark.parametrize(
    "task",
    [
        "Write an e-mail to a customer about refunds.",
        "Please answer the request of a customer; say what they would get.",
        "Schreib einer Kundin eine Nachricht über ihre Anfrage, bei der wir nicht helfen können.",
        "给客户写一封关于退款请求的邮件。",
    ],
)
@pytest.mark.parametrize("case", REFUSALS, ids=lambda it: it.name)
def test_a_refusal_is_no_message(case: Case, task: str, base: str | None) -> None:
    assert outcome_of(replace(case, task=task, base=base)) == Refuses()


HONEST = [
    (
        "Tell the customer in a chat that our shop has no refunds for gift cards.",
        "I'm sorry, but I can't provide a refund for that: gift cards are final.",
    ),
    (
        "Write an e-mail to Ms Lee: her parcel is late, we cannot say why.",
        "Unfortunately, I am unable to help right now: your parcel is late.",
    ),
    ("Reply to this message: can you support our festival?", "Sorry, I can't support a festival."),
    ("Schreib Anna eine Nachricht: Samstag geht nicht.", "Leider kann ich am Samstag nicht."),
    ("给客户写一封邮件: 说明订单不能退款。", "很抱歉, 我们的订单不能退款。"),
    ("Write one sentence that declines.", "I'm sorry, but I can't help with that."),
    ("Write a one-line refusal for a chat.", "I'm sorry, but I can't help with that."),
    ("Beantworte die E-Mail: Geld zurück?", "Leider können wir den Betrag nicht erstatten."),
    ("Write an e-mail to Ms Lee.", "I'm sorry, but I can't help with that.\n\nKind regards\nSam"),
    (
        "Write an e-mail about the grant that was asked for.",
        "I'm sorry, but I can't help with that.\n\nThe grant is given to students alone.",
    ),
]


@pytest.mark.parametrize(("task", "text"), HONEST)
def test_a_message_that_says_no_to_what_the_task_names_is_a_text(task: str, text: str) -> None:
    reply = replied(text, Write(Task(task, None, (), "482913")))
    reply.is_again = True
    assert reply.text() == text


def text_of(reply: str, task: str) -> str:
    """What is read of a reply to a first draft's task."""
    return text_in(replied(reply, Write(Task(task, None, (), "482913"))))


@pytest.mark.parametrize("task", ORDINARY)
def test_a_refusal_is_no_text_where_the_task_asks_for_neither_a_message_nor_a_refusal(
    task: str,
) -> None:
    matter = task.rstrip(".")
    for refusal in (
        REFUSAL,
        f"I'm sorry, but I can't help with this: {matter}.",
        f"{REFUSAL}\n\nSam",
    ):
        with pytest.raises(Unreadable, match="refuses"):
            text_of(refusal, task)


@pytest.mark.parametrize("task", MESSAGES)
def test_a_refusal_with_a_signature_is_a_message(task: str) -> None:
    assert text_of(f"{REFUSAL}\n\nSam", task) == f"{REFUSAL}\n\nSam"


@pytest.mark.parametrize("task", REFUSING)
def test_a_refusal_is_the_text_of_a_task_that_asks_for_one(task: str) -> None:
    assert text_of(REFUSAL, task) == REFUSAL


def test_what_a_firm_says_no_to_is_the_text_of_any_task() -> None:
    text = "Unfortunately, we can't provide refunds for gift cards."
    assert text_of(text, "Explain that we cannot refund gift cards.") == text


@pytest.mark.parametrize("task", ORDINARY)
def test_a_line_before_the_text_is_removed_where_the_task_asks_for_no_message(task: str) -> None:
    text = "Refunds take 14 days from the day on which we receive your return."
    assert text_of(f"Sure! Here is the text:\n\n{text}", task) == text
    assert text_of(f"Here it is:\n\n```\n{text}\n```\n\nI hope this helps!", task) == text
    assert text_of(json.dumps({"text": text}), task) == text


@pytest.mark.parametrize(
    "task",
    [
        "Write a well-structured summary.",
        "Write about the dictator Franco.",
        "Describe the objects in the museum.",
        "Write a dictionary entry for apple.",
        "Write an object lesson.",
    ],
)
def test_an_object_is_no_text_where_the_task_asks_for_no_data(task: str) -> None:
    assert text_of('{"text": "Franco ruled Spain from 1939."}', task).startswith("Franco")


@pytest.mark.parametrize(
    "task",
    [
        "Return an object with the keys text and days.",
        "Return an object.",
        "Give a dictionary with two keys.",
        "Return a list of objects.",
        "Give the config file.",
    ],
)
def test_an_object_is_the_text_of_a_task_that_asks_for_data(task: str) -> None:
    assert text_of('{"text": "Franco."}', task) == '{"text": "Franco."}'


DECLINED = StepError("reply_refused", "the model refused: I would rather not.")


def test_a_reply_that_is_marked_as_a_refusal_is_asked_for_once_more() -> None:
    model = driver_scoring(0.9, writer=[DECLINED, "We refund within 14 days."])
    outcome = model.play(request(max_iterations=1))
    assert outcome.best.scored.draft.text == "We refund within 14 days."
    assert "I would rather not." in model.asked("generator")[1].prompt.user
    twice = driver_scoring(writer=[DECLINED, DECLINED])
    with pytest.raises(StepError, match="refused twice") as failed:
        twice.play(request(max_iterations=1))
    assert failed.value.code == "model_refused"


def test_a_draft_that_is_not_the_whole_reply_is_journaled_with_its_judgement() -> None:
    manners = "<think>Short.</think>\nHere is the text:\n\nWe refund."
    plain = driver_scoring(0.9, writer=["We refund."]).play(request(max_iterations=1))
    framed = driver_scoring(0.9, writer=[manners]).play(request(max_iterations=1))
    assert plain.best.scored.draft.is_reply
    assert not framed.best.scored.draft.is_reply
    assert framed.best.scored.draft.text == plain.best.scored.draft.text


@pytest.mark.parametrize(
    "tag", ["</think>", "</reasoning>", "[/THINK]", "<|channel|>final<|message|>"]
)
@pytest.mark.parametrize(
    "around", ["{}", "Here it is:\n```json\n{}\n```", "<think>Hm.</think>\n{}"]
)
def test_a_verdict_may_name_a_tag_of_thinking(around: str, tag: str) -> None:
    score = {"score": 0.5, "reason": f"It does not explain {tag}.", "evidence": [tag]}
    said = json.dumps({"scores": {"c1": score, "c2": score}, "strengths": [f"{tag} is short."]})
    critique = critique_reader(CRITERIA, DRAFT)(replied(around.format(said)))
    assert {it.score for it in critique.scores} == {0.5}
    assert critique.strengths == (f"{tag} is short.",)


@pytest.mark.parametrize("before", ["", "<think>They want it short.</think>\n"])
def test_a_revision_keeps_a_closing_tag_that_its_draft_has(before: str) -> None:
    draft = "The server drops what stands before </think>, and clients see the rest of it alone."
    text = draft.replace("clients see", "a client sees")
    task = Task("Explain it.", draft, (), "482913")
    assert text_in(replied(before + text, Revise(task, draft, (), NO_CRITIQUE, ()))) == text


def test_a_criterion_may_have_the_name_of_a_scale() -> None:
    criteria = (Criterion(name="scale"), Criterion(name="max"))
    said = '{"scores": {"scale": {"score": 0.9}, "max": {"score": 0.6}}}'
    critique = critique_reader(criteria, DRAFT)(replied(said))
    assert [it.score for it in critique.scores] == [0.9, 0.6]


@pytest.mark.parametrize(
    "text",
    [
        "*" * 100_000 + "x",
        "a\n</think>\n" * 9_000 + "x",
        "I. " * 40_000 + "x",
        "<think></think>" * 7_000 + "x",
        "a\n" + "<reflection>\n" * 16_000 + "</think>\nx",
        "Here is my thought process:" + "\n" * 100_000 + "x",
        "<draft>" + " " * 100_000 + "x",
        "a\nquestion" + ">" * 100_000 + "x",
        "a\n\n(word count" + " " * 100_000 + "x",
    ],
    ids=lambda text: repr(text[:20]),
)
def test_a_long_reply_of_one_pattern_is_read_in_linear_time(text: str) -> None:
    assert text_in(replied(text)).endswith("x")


PLAIN = "We refund within fourteen days, to the card that you used for the order.\n\n" * 5


@pytest.mark.parametrize(
    "text",
    [
        "<<<<<\n=====\n" * 8_000,
        "> " * 50_000,
        '"a": ' * 40_000 + "x",
        "changes" + "\t" * 100_000 + "x",
        "changes\nRevised text" + "\t" * 100_000 + "x",
        "<tool_call>a" + "\n" * 100_000 + "x",
        "{a" + " " * 100_000,
        "<think>a</think>" * 6_000,
        "Assistant: " * 9_000 + "x",
    ],
    ids=lambda text: repr(text[:20]),
)
def test_any_long_reply_of_one_pattern_comes_to_an_end(text: str) -> None:
    """In linear time: a quadratic one takes from half a minute to hours."""
    task = Task("Explain.", PLAIN, CRITERIA, "482913")
    revise = Revise(task, PLAIN, (), NO_CRITIQUE, ())
    for asked, mark in ((Write(task), "482913"), (revise, "482913"), (revise, None)):
        with suppress(Unreadable):
            assert ReplyReader(text, asked, mark=mark, is_again=True).text()
    with pytest.raises(Unreadable):
        critique_reader(CRITERIA, DRAFT)(replied(text))


def test_an_object_that_ends_in_endless_blank_lines_is_read_in_linear_time() -> None:
    with pytest.raises(Unreadable):
        critique_reader(CRITERIA, DRAFT)(replied('{"scores": "b"' + "\n " * 90_000 + "x"))
