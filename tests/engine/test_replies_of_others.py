"""Replies from people who had not read the reader: their form, and what comes of them."""

from dataclasses import replace

import pytest

from tests.engine.replies.articles import ArticleReply
from tests.engine.replies.collected import PUBLIC, anew, first_drafts, public, texts

MOST_WRONG = 5 / 103


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_the_corpus_holds_at_least_a_hundred_replies_with_names_of_their_own() -> None:
    assert len(PUBLIC) >= 100
    assert len({reply.name for reply in PUBLIC}) == len(PUBLIC)


def test_every_expected_text_occurs_in_its_reply() -> None:
    texts = [(reply, reply.text) for reply in PUBLIC if reply.text is not None]
    absent = [reply.name for reply, text in texts if one_line(text) not in one_line(reply.reply)]
    assert absent == []


@pytest.mark.parametrize("is_marked", [True, False], ids=["marks", "no marks"])
@pytest.mark.parametrize("replies", [tuple(public()), tuple(anew())], ids=["public", "anew"])
def test_few_replies_become_a_wrong_draft_when_they_come_once_and_again(
    replies: tuple[ArticleReply, ...], *, is_marked: bool
) -> None:
    tried = [it.with_marks() if is_marked else it for it in replies]
    wrong = [it.name for it in tried if it.is_wrong]
    assert len(wrong) <= MOST_WRONG * len(tried), wrong


@pytest.mark.parametrize("is_marked", [True, False], ids=["marks", "no marks"])
def test_no_text_that_others_chose_is_cut_or_altered(*, is_marked: bool) -> None:
    tried = [it.with_marks() if is_marked else it for it in texts()]
    assert [it.name for it in tried if it.is_wrong] == []
    assert [it.name for it in tried if it.outcome(is_again=True) == "doubted"] in ([], ["haiku"])


@pytest.mark.parametrize("kind", ["replies", "later", "texts"])
def test_a_first_draft_without_marks_is_right_where_an_object_with_the_text_follows(
    kind: str,
) -> None:
    played = {it.name: it.played(it.in_object) for it in first_drafts(kind)}
    assert [name for name, came in played.items() if came != "right"] == []


def test_clean_first_drafts_are_seldom_altered_where_marks_and_form_are_ignored() -> None:
    drafts = {it.text.strip(): it for it in (*public(), *anew()) if it.text}
    clean = [replace(it, said=text, text=text, base=None) for text, it in drafts.items()]
    clean += first_drafts("texts")
    altered = [it.name for it in clean if it.played(it.said) != "right"]
    assert len(altered) <= 3, altered


def test_clean_revisions_without_marks_are_not_asked_for_again() -> None:
    clean = [replace(it, said=it.text.strip(), text=it.text.strip()) for it in public() if it.text]
    again = [it.name for it in clean if it.base is not None and it.outcome() != "right"]
    assert len(again) <= 3, again


@pytest.mark.parametrize("reply", [*anew("marks")], ids=lambda it: it.name)
def test_misused_marks_lead_to_the_text_or_to_another_try(reply: ArticleReply) -> None:
    assert not reply.is_wrong
