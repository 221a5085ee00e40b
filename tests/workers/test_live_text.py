"""What is published of texts under way: what has grown, in turns, without thinking."""

import asyncio
import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from app.contract.drafts import marks
from app.store.live_texts import LiveTexts, encode_piece
from app.store.wakeups import ChangeSignal
from tests.waiting import TIMEOUT_S
from workers.engine.prompts import Task, Write
from workers.engine.replies.reader import ReplyReader
from workers.play.executor import TextPublisher

WATCHED = {"ref_1": False}


TEXT = "Dear customer,\n\nwe refund <b>you</b> within 14 days.\n\nKind regards"
OPENS, CLOSES = marks("482913")
MARKED = f"{OPENS}\n{TEXT}\n{CLOSES}"
FORMS = {
    "marks": MARKED,
    "words around them": f"Sure!\n{MARKED}\nLet me know.",
    "no last mark yet": f"{OPENS}\n{TEXT}",
    "line ends of Windows": MARKED.replace("\n", "\r\n"),
    "an indent, and line ends of Windows": f"{OPENS}\n  {TEXT}\n{CLOSES}".replace("\n", "\r\n"),
    "a byte order mark": f"\ufeff{MARKED}",
    "a byte order mark inside": f"{OPENS}\n\ufeff{TEXT}\n{CLOSES}",
    "blanks": f"{OPENS}\n \n {TEXT}  \n\n{CLOSES}\n",
    "thinking": f"<think>Hm, {MARKED}?</think>\n{MARKED}",
    "thinking without its first tag": f"Hm.\n</think>\n{MARKED}",
    "thinking inside": f"{OPENS}\n<think>Hm, hm, hm, hm.</think>\n{TEXT}\n{CLOSES}",
    "reasoning inside": f"{OPENS}<reasoning>Hm, hm, hm.</reasoning>{TEXT}{CLOSES}",
    "nested thinking inside": f"{OPENS}<think>A <think>B</think> C</think> {TEXT}{CLOSES}",
    "thinking within the text": f"{OPENS}\n{TEXT}\n<think>Hm.</think>\nSam\n{CLOSES}",
    "brackets": f"{OPENS}\n[THINK]Hm, hm, hm.[/THINK]{TEXT}\n{CLOSES}",
    "a fence": f"```\n{MARKED}\n```",
    "a fence inside": f"{OPENS}\n```markdown\n{TEXT}\n```\n{CLOSES}",
    "code at the start": f"{OPENS}\n```py\nx = 1\n```\n\n{TEXT}\n{CLOSES}",
    "bold marks": f"**{OPENS}**\n{TEXT}\n**{CLOSES}**",
    "escaped marks": MARKED.replace("<", "&lt;").replace(">", "&gt;"),
    "another number": MARKED.replace("482913", "482914"),
    "marks in a sentence": f"It stands between {OPENS} and {CLOSES}:\n\n{MARKED}",
    "a repetition": f"{MARKED}\n{MARKED}",
    "a tag at the start": f"{OPENS}\n<p>{TEXT}</p>\n{CLOSES}",
    "a link at the start": f"{OPENS}\n[We](https://example.com) say: {TEXT}\n{CLOSES}",
    "tokens": f"{OPENS}\n<|channel|>final<|message|>{TEXT}\n{CLOSES}<|im_end|>",
    "no marks": f"Sure, here is the text:\n\n{TEXT}\n\nLet me know if you want changes.",
    "an object": json.dumps({"text": MARKED}),
}
HELD = {"a fence inside", "code at the start", "tokens", "no marks", "an object"}
"""Forms of which nothing is certain before the end."""


ASKED = Write(Task("Write about refunds.", None, (), "abcdefgh"))


ON_WINDOWS = Write(Task("Write about refunds.\r\nBe kind.", None, (), "abcdefgh"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1, 7, 40])
@pytest.mark.parametrize("asked", [ASKED, ON_WINDOWS], ids=["unix", "windows"])
def test_what_is_shown_of_a_reply_only_grows_into_its_text(
    form: str, size: int, asked: Write
) -> None:
    def begun(reply: str) -> str:
        return ReplyReader(reply, asked, mark="482913").begun()

    reply = FORMS[form]
    if asked is ON_WINDOWS:
        reply = re.sub("\r?\n", "\r\n", reply)
    parts = [begun(reply[:end]) for end in range(0, len(reply) + size, size)]
    shown = ["", *filter(None, parts)]
    assert all(after.startswith(before) for before, after in pairwise(shown))
    closed = f"{reply}\n{CLOSES}" if form == "no last mark yet" else reply
    read = ReplyReader(closed, asked, mark="482913", is_again=True)
    assert read.text().startswith(shown[-1])
    assert (shown[-1] == "") is (form in HELD)
    assert form in HELD or any(0 < len(part) < len(TEXT) for part in shown)


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        ("Let us see. It follows.", ""),
        ("<think>{}</think>{", ""),
        (' {"days": 14, ', '{"days": 14,'),
    ],
)
def test_of_a_reply_without_marks_an_object_is_shown(reply: str, shown: str) -> None:
    assert ReplyReader(reply, ASKED).begun() == shown


class Channel:
    """Keeps what was published, and says when there is something."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int, str | None]] = []
        self.waits = False
        self._came = asyncio.Event()

    def publish(self, _id: str, key: str, offset: int, text: str | None) -> "asyncio.Future[Any]":
        self.sent.append((key, offset, text))
        self._came.set()
        answer = asyncio.get_running_loop().create_future()
        if not self.waits:
            answer.set_result(1)
        return answer

    async def until(self, count: int) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while len(self.sent) < count:
                self._came.clear()
                await self._came.wait()


async def test_nothing_is_published_while_nobody_watches() -> None:
    channel = Channel()
    texts = TextPublisher(channel.publish)
    texts.watched({"ref_2": True})
    with texts.writing("ref_1", "a") as follower:
        assert not follower.is_watched
        follower.follow(lambda: "Dear")
        await asyncio.sleep(0.25)
    assert channel.sent == []


async def test_only_what_is_new_is_published_and_a_new_try_begins_anew() -> None:
    channel, text = Channel(), ["Dear"]
    texts = TextPublisher(channel.publish)
    texts.watched(WATCHED)
    with texts.writing("ref_1", "a") as follower:
        assert follower.is_watched
        follower.follow(lambda: text[0])
        await channel.until(1)
        text[0] = "Dear customer"
        await channel.until(2)
        follower.follow(lambda: "Hello")
        await channel.until(3)
    assert channel.sent == [
        ("a", 0, "Dear"),
        ("a", 4, " customer"),
        ("a", 0, "Hello"),
    ]


async def test_the_text_of_a_failed_call_is_taken_back() -> None:
    channel = Channel()
    texts = TextPublisher(channel.publish)
    texts.watched(WATCHED)

    async def fail() -> None:
        with texts.writing("ref_1", "a") as follower:
            follower.follow(lambda: "Dear")
            await channel.until(1)
            raise TimeoutError

    with pytest.raises(TimeoutError):
        await fail()
    assert channel.sent == [("a", 0, "Dear"), ("a", 0, None)]


async def test_who_needs_the_whole_text_gets_it() -> None:
    channel = Channel()
    texts = TextPublisher(channel.publish)
    with texts.writing("ref_1", "a") as follower:
        follower.follow(lambda: "Dear")
        texts.watched(WATCHED)
        await channel.until(1)
        texts.watched(WATCHED)
        texts.watched({"ref_1": True})
        await channel.until(2)
    assert channel.sent[:2] == [("a", 0, "Dear")] * 2


async def test_texts_side_by_side_take_turns() -> None:
    channel = Channel()
    texts = TextPublisher(channel.publish)
    texts.watched(WATCHED)
    count = [0]

    def growing() -> str:
        count[0] += 1
        return "x" * count[0]

    with texts.writing("ref_1", "a") as one, texts.writing("ref_1", "b") as other:
        one.follow(growing)
        other.follow(growing)
        await channel.until(4)
        assert [key for key, _, _ in channel.sent] == ["a", "b", "a", "b"]


async def test_pieces_are_not_queued_while_redis_does_not_answer() -> None:
    channel = Channel()
    channel.waits = True
    texts = TextPublisher(channel.publish)
    texts.watched(WATCHED)
    with texts.writing("ref_1", "a") as follower:
        follower.follow(growing_text())
        await channel.until(1)
        await asyncio.sleep(0.35)
        assert len(channel.sent) == 1


def growing_text() -> Callable[[], str]:
    text: list[str] = []

    def more() -> str:
        text.append("x")
        return "".join(text)

    return more


async def test_a_slow_watcher_takes_longer_pieces_less_often() -> None:
    texts, changed = LiveTexts(), ChangeSignal()
    async with texts.watch("ref_1", changed) as fast, texts.watch("ref_1", changed) as slow:
        seen = []
        for offset, piece in enumerate("Dear"):
            texts.receive(encode_piece("ref_1", "a", offset, piece))
            seen += [it.text for it in fast.take()]
        assert seen == ["D", "e", "a", "r"]
        assert [(it.offset, it.text) for it in slow.take()] == [(0, "Dear")]
        assert slow.take() == ()


async def test_a_replaced_text_is_taken_from_where_it_differs() -> None:
    texts = LiveTexts()
    async with texts.watch("ref_1", ChangeSignal()) as cursor:
        texts.receive(encode_piece("ref_1", "a", 0, "Dear"))
        cursor.take()
        texts.receive(encode_piece("ref_1", "a", 0, "Hello"))
        assert [(it.offset, it.text) for it in cursor.take()] == [(0, "Hello")]
        texts.receive(encode_piece("ref_1", "a", 5, "!"))
        texts.receive(encode_piece("ref_1", "a", 0, None))
        assert cursor.take() == ()


async def test_a_text_whose_step_has_ended_is_not_sent_until_the_step_begins_anew() -> None:
    texts = LiveTexts()
    async with texts.watch("ref_1", ChangeSignal()) as cursor:
        texts.receive(encode_piece("ref_1", "a", 0, "Dear"))
        cursor.end("a")
        async with texts.watch("ref_1", ChangeSignal()) as later:
            assert later.take() == ()
        texts.receive(encode_piece("ref_1", "a", 4, "!"))
        assert cursor.take() == ()
        texts.receive(encode_piece("ref_1", "a", 0, "Hi"))
        assert [it.text for it in cursor.take()] == ["Hi"]


async def test_a_text_whose_beginning_was_missed_is_asked_for() -> None:
    texts = LiveTexts()
    texts.receive(encode_piece("ref_1", "a", 0, "Dear"))  # nobody watches
    async with texts.watch("ref_1", ChangeSignal()) as cursor:
        assert texts.take_behind() == {"ref_1"}
        assert texts.take_behind() == set()
        texts.receive(encode_piece("ref_1", "a", 4, " customer"))
        assert cursor.take() == ()
        assert texts.take_behind() == {"ref_1"}
    assert texts.watched == []
