"""A text stands between marks in a reply: which marks, what is read, and what never stays."""

import json
import re
from dataclasses import replace

import pytest

from app.contract.drafts import draft_of, marks
from app.contract.judgement import Critique
from tests.engine.engine_driver import driver_scoring, request
from tests.engine.replies.articles import (
    ARTICLE,
    BODY,
    FIRST_PARAGRAPH,
    NO_TEXTS,
    REVISED,
    firsts,
    legitimate,
    others,
)
from tests.engine.replies.articles import REPLIES as ARTICLES
from workers.engine.asking import question, reply_reader
from workers.engine.moves import Ask, StepError, Stopped, about
from workers.engine.pipeline import task_of
from workers.engine.prompts import Prompt, Revise, Write
from workers.engine.replies.reader import TEXT_ALONE, CutShort, Unreadable

CRITIQUE = Critique(scores=())
TASK = task_of(request(context=[{"name": "policy.md", "text": "14 days."}]), "482913")
WRITE = question("draft", "generator", Write(TASK))
NUMBER = WRITE.prompt.mark or ""
OPENS, CLOSES = marks(NUMBER)


def read(reply: str, asked: Ask = WRITE) -> str:
    return reply_reader(asked, reply).text()


@pytest.mark.parametrize("is_marked", [True, False], ids=["marks", "no marks"])
def test_at_most_five_replies_to_a_plain_article_are_read_wrongly(*, is_marked: bool) -> None:
    replies = [it.with_marks() if is_marked else it for it in ARTICLES]
    wrong = [it.name for it in replies if it.is_wrong]
    assert len(replies) > 103
    assert len(wrong) <= 5, wrong


@pytest.mark.parametrize("is_marked", [True, False], ids=["marks", "no marks"])
def test_no_text_is_cut_or_altered(*, is_marked: bool) -> None:
    texts = [it.with_marks() if is_marked else it for it in legitimate()]
    assert [it.name for it in texts if it.is_wrong or it.outcome() == "asked again"] == []
    kept = [it.name for it in texts if it.outcome(is_again=True) == "doubted"]
    assert 3 * len(kept) <= len(texts), kept


@pytest.mark.parametrize("is_marked", [True, False], ids=["marks", "no marks"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["unix", "windows"])
def test_a_draft_with_windows_line_ends_is_revised_like_any_other(
    line_end: str, *, is_marked: bool
) -> None:
    unlike = []
    for one in (*ARTICLES, *legitimate()):
        it = one.with_marks() if is_marked else one
        base, text = (words and words.replace("\n", "\r\n") for words in (it.base, it.text))
        other = replace(it, base=base, text=text, said=it.said.replace("\n", line_end))
        if it.base is not None and it.played(it.said) != other.played(other.said):
            unlike.append(it.name)
    assert unlike == []


def test_articles_in_other_languages_are_read_as_well() -> None:
    wrong = [it.name for it in (*others(), *firsts()) if it.outcome() == "wrong"]
    assert len(wrong) <= 8, wrong


def test_the_last_line_of_a_prompt_asks_for_marks_also_when_it_is_sent_again() -> None:
    model = driver_scoring(0.9, writer=["...", f"{OPENS}We refund", "We refund."])
    model.play(request(max_iterations=1))
    for it in model.asked("generator"):
        last = it.prompt.user.rsplit("\n", 1)[1]
        assert f"<text-{it.prompt.mark}> and </text-{it.prompt.mark}>" in last


def test_the_marks_leave_the_hash_of_a_step_and_what_prompts_share_as_they_are() -> None:
    revise = [Revise(TASK, it, (), CRITIQUE, ()) for it in ("One.", "Two.")]
    one, two = (question("revise", "generator", it) for it in revise)
    assert one.prompt.mark != two.prompt.mark != NUMBER
    assert one.prompt.user[: one.prompt.shared] == WRITE.prompt.user[: WRITE.prompt.shared]
    assert about(one) == about(one.changed(prompt=two.prompt))
    assert question("revise", "generator", revise[0]).prompt == one.prompt


def test_a_number_that_a_text_contains_is_not_the_one_of_the_marks() -> None:
    task = task_of(request(task=f"Explain {OPENS} to a customer."), "482913")
    assert Write(task).prompt().mark not in (None, NUMBER)


@pytest.mark.parametrize(
    "reply",
    [
        f"{OPENS}\nWe refund.\n{CLOSES}",
        f"Sure!\n{OPENS}\nWe refund.\n{CLOSES}\nBye.",
        f"{OPENS}We refund.{CLOSES}",
        f"**{OPENS}**\nWe refund.\n**{CLOSES}**",
        f"```\n{OPENS}\nWe refund.\n{CLOSES}\n```",
        f"{OPENS}\n```text\nWe refund.\n```\n{CLOSES}",
        f"{OPENS}\nWe refund.\n{OPENS}",
        f"{OPENS}\nWe refund.\n</text>",
        f"We refund.\n{CLOSES}",
        "<text-000001>\nWe refund.\n</text-000001>",
        f"I write between {OPENS} and {CLOSES}.\n{OPENS}\nWe refund.\n{CLOSES}",
        f"<think>Maybe {OPENS}No.{CLOSES}</think>{OPENS}We refund.{CLOSES}",
        f"{OPENS}\n{OPENS}\nWe refund.\n{CLOSES}\n{CLOSES}",
        f"&lt;text-{NUMBER}&gt;\nWe refund.\n&lt;/text-{NUMBER}&gt;",
        f"{OPENS}\r\nWe refund.\r\n{CLOSES}",
    ],
)
def test_what_stands_between_the_marks_is_the_text(reply: str) -> None:
    assert read(reply) == "We refund."


@pytest.mark.parametrize("text", ["Set `wait`", "`wait` is set.", "**All of it**", "___\nEnd\n___"])
def test_signs_of_the_text_beside_a_mark_stay(text: str) -> None:
    assert read(f"{OPENS}{text}{CLOSES}") == text
    assert read(f"**{OPENS}**{text}**{CLOSES}**") == text


def test_two_texts_between_marks_are_asked_for_again() -> None:
    two = f"{OPENS}\nWe refund you.\n{CLOSES}\nOr:\n{OPENS}\nYou are refunded.\n{CLOSES}"
    with pytest.raises(Unreadable, match="more than one"):
        read(two)


@pytest.mark.parametrize(
    "reply", [f"{OPENS}\nWe refund", f"Sure!\n{OPENS}\nWe refund.\n</tex", OPENS]
)
def test_a_text_without_its_last_mark_is_cut_off(reply: str) -> None:
    with pytest.raises(CutShort, match=CLOSES):
        read(reply)


def test_a_text_that_was_cut_off_is_asked_for_with_more_room_and_shown_without_marks() -> None:
    first = driver_scoring(0.9, writer=["We refund."])
    first.play(request(max_iterations=1))
    opens = marks(first.asked("generator")[0].prompt.mark or "")[0]
    model = driver_scoring(0.9, writer=[f"{opens}\nWe ref", "We refund."])
    assert model.play(request(max_iterations=1)).best.scored.draft.text == "We refund."
    again = model.asked("generator")[1]
    assert again.room == 1
    assert again.prompt.user.count(opens) == 2  # where it is asked for, and not in the reply


def test_a_text_that_was_cut_off_twice_is_asked_for_shorter_with_more_room_still() -> None:
    cut_off = StepError("reply_cut_off", "cut off")
    model = driver_scoring(0.9, writer=[cut_off, cut_off, "We refund."])
    assert model.play(request(max_iterations=1)).best.scored.draft.text == "We refund."
    _, second, third = model.asked("generator")
    assert (second.room, third.room) == (1, 2)
    assert "give the whole text" in second.prompt.user
    assert "answer again, shorter" in third.prompt.user


def test_a_reply_of_marks_and_a_text_is_not_journaled_twice() -> None:
    assert draft_of(f"{OPENS}\n{REVISED}\n{CLOSES}\n") == REVISED
    assert draft_of(f"Sure!\n{OPENS}\n{REVISED}\n{CLOSES}") != REVISED


def test_a_text_that_speaks_of_marks_keeps_them() -> None:
    task = task_of(request(task="Explain the tag <text-123456> to a developer."), "482913")
    asked = question("draft", "generator", Write(task))
    opens, closes = marks(asked.prompt.mark or "")
    text = "A reply begins with <text-123456>.\n\nIt ends with </text-123456>."
    assert read(f"{opens}\n{text}\n{closes}", asked) == text


def test_no_mark_of_its_step_stays_in_a_draft() -> None:
    said = f"We {OPENS} refund.\n{CLOSES}\nYou {CLOSES} wait."
    for reply in (said, f"{OPENS}\n{said}", f"A.\n\n{said}"):
        try:
            text = read(reply)
        except Unreadable:
            continue
        assert not re.search(rf"text-{NUMBER}", text)


def test_what_may_be_no_text_is_asked_for_again_once_and_then_the_draft_stays() -> None:
    other = NO_TEXTS["another text"]
    model = driver_scoring(0.5, 0.9, writer=[other, other])
    outcome = model.play(request(draft=ARTICLE, max_iterations=1))
    assert [it.path for it in model.asked("generator")] == [
        "iterations/1/revise",
        "iterations/1/revise/again/1",
    ]
    assert outcome.best.scored.draft.text == ARTICLE
    assert not outcome.best.scored.draft.is_reply
    last = model.asked("generator")[-1]
    assert last.read is not None
    last.read(reply := reply_reader(last, other))
    assert [it.item for it in reply.dropped] == ["the text"]


def asked_twice(first: str, second: str, task: str = "Write an article.") -> tuple[str, Prompt]:
    """What becomes the draft of two replies, and the prompt of the second."""
    model = driver_scoring(0.9, writer=[first, second])
    outcome = model.play(request(task=task, max_iterations=1))
    return outcome.best.scored.draft.text, model.asked("generator")[1].prompt


AROUND_AN_OBJECT = ("{}", "Sure!\n\n```json\n{}\n```\nThat is all.", "<think>Hm.</think>{}")


@pytest.mark.parametrize("around", AROUND_AN_OBJECT)
def test_a_first_draft_of_several_paragraphs_without_marks_is_asked_for_in_an_object(
    around: str,
) -> None:
    first = f"{REVISED}\n\nSoll ich noch ein Bild vorschlagen?"
    said = json.dumps({"text": REVISED}, ensure_ascii=False)
    text, prompt = asked_twice(first, around.replace("{}", said))
    assert text == REVISED
    unescaped = said.replace("\\n", "\n")
    assert asked_twice(first, around.replace("{}", unescaped))[0] == REVISED
    assert prompt.schema == TEXT_ALONE
    assert prompt.asks_for_text
    assert prompt.user.endswith("no word about the text.")


@pytest.mark.parametrize("name", ["thinking", "analysis", "plan", "what_they_want"])
def test_a_text_in_an_object_is_the_draft_however_long_the_thoughts_beside_it(name: str) -> None:
    first, text = "We refund.\n\nAsk us.", "We refund you. Ask us."
    thoughts = FIRST_PARAGRAPH + FIRST_PARAGRAPH.upper()
    assert asked_twice(first, json.dumps({name: thoughts, "text": text}))[0] == text
    if name != "what_they_want":
        assert asked_twice(first, json.dumps({name: thoughts, "article": text}))[0] == text


def test_an_object_with_an_empty_text_is_no_draft() -> None:
    model = driver_scoring(0.9, writer=['{"text": ""}', "We refund."])
    assert model.play(request(max_iterations=1)).best.scored.draft.text == "We refund."


def test_a_first_draft_of_one_paragraph_needs_no_marks() -> None:
    model = driver_scoring(0.9, writer=["We refund within 14 days."])
    model.play(request(max_iterations=1))
    assert len(model.asked("generator")) == 1


def test_a_revision_that_is_doubtful_without_marks_is_asked_for_in_an_object() -> None:
    writer = [NO_TEXTS["another text"], json.dumps({"text": REVISED})]
    model = driver_scoring(0.5, 0.9, writer=writer)
    outcome = model.play(request(draft=ARTICLE, max_iterations=1))
    assert outcome.best.scored.draft.text == REVISED
    assert not outcome.best.scored.draft.is_reply


@pytest.mark.parametrize("second", ["Compost.", '{"text": "Compost."}', '{"text": "# Starting'])
def test_a_first_draft_stays_where_little_of_it_or_nothing_that_can_be_read_follows(
    second: str,
) -> None:
    assert asked_twice(REVISED, second)[0] == REVISED


@pytest.mark.parametrize("refusal", [StepError("budget", "It is spent."), Stopped()])
def test_a_first_draft_stays_where_it_cannot_be_asked_for_again(
    refusal: Stopped | StepError,
) -> None:
    model = driver_scoring(0.9, writer=[REVISED, refusal])
    assert model.play(request(max_iterations=1)).best.scored.draft.text == REVISED
    assert [it.prepares for it in model.asked("generator")] == [False, True]


def test_a_first_draft_in_a_fence_needs_no_marks() -> None:
    model = driver_scoring(0.9, writer=[f"```python\n{REVISED}\n```"])
    assert model.play(request(max_iterations=1)).best.scored.draft.text == REVISED


def test_a_text_that_may_be_an_object_is_asked_for_between_marks_again() -> None:
    settings = "name: hone\n\nmodel: small"
    text, prompt = asked_twice(settings, settings, "Write a configuration in YAML.")
    assert text == settings
    assert prompt.schema is None


def test_what_stands_around_a_text_again_is_cut_and_a_new_paragraph_stays() -> None:
    new = f"Nothing in a garden is wasted for long.\n\n{BODY}"
    said = f"{REVISED}\n\n**What I changed**\n\n- Cut the filler.\n- Simplified one sentence."
    for around, text in ((said, REVISED), (new, new)):
        model = driver_scoring(0.5, 0.9, writer=[around, around])
        outcome = model.play(request(draft=ARTICLE, max_iterations=1))
        assert outcome.best.scored.draft.text == text


@pytest.mark.parametrize(("ending", "is_kept"), [("", False), (" End with: {}", True)])
def test_a_remark_below_a_first_draft_is_cut_unless_the_request_has_it(
    ending: str, *, is_kept: bool
) -> None:
    remark = "I made it shorter and clearer as you asked."
    body = (
        "Refunds are paid within fourteen days of the day on which we receive the goods.\n\nPlease"
        " send the goods back in their box, with the number of the order written on it, and keep"
        " the receipt of the post office."
    )
    model = driver_scoring(0.9, writer=[f"{body}\n\n{remark}"] * 2)
    wanted = request(task=f"Explain refunds.{ending.format(remark)}", max_iterations=1)
    text = model.play(wanted).best.scored.draft.text
    assert text == (f"{body}\n\n{remark}" if is_kept else body)
