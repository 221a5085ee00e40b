"""What is published of texts under way: what has grown, in turns, without thinking."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from app.store.live_texts import LiveTexts, encode_piece
from app.store.wakeups import ChangeSignal
from tests.waiting import TIMEOUT_S
from workers.play.executor import TextPublisher, visible_text

WATCHED = {"ref_1": False}


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("Dear customer", "Dear customer"),
        ("<think>Hm. A <b> tag", ""),
        ("\n<think>Hm.</think>\n\nDear", "Dear"),
        ("<thinking>Hm.</thinking>Dear", "Dear"),
        ("Hm, so I write.\n</think>\nDear", "Dear"),
        ("<thi", ""),
        ("1 < 2", "1 < 2"),
        ("Use <b>bold</b> text", "Use <b>bold</b> text"),
        ("Dear </thin", "Dear "),
    ],
)
def test_thinking_is_withheld(text: str, visible: str) -> None:
    assert visible_text(text) == visible


MARKED = "Sure!\n<text-482913>\nDear customer.\n</text-482913>\nBye."


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("Sure!", ""),
        ("Sure!\n<text-48", ""),
        ("Sure!\n<text-482913>\nDear", "Dear"),
        ("<think>Hm.</think><text-482913>Dear <b>c</b>", "Dear <b>c</b>"),
        ("<text-482913>\nDear customer.\n</te", "Dear customer."),
        ("<text-482913>\nDear customer.\n</text-482913", "Dear customer."),
        (MARKED, "Dear customer."),
        ("**<text-482913>**\nDear customer.\n**</tex", "Dear customer."),
        ("&lt;text-482913&gt;\nDear customer.\n&lt;/text-482913&g", "Dear customer."),
        ("Between <text-482913> and </text-482913>:\n<text-482913>Dear", "Dear"),
        (f"{MARKED}\nBetween <text-482913> and </text-482913>.", "Dear customer."),
        ("<text-482914>\nDear customer.\n</text-482914>\nBye.", "Dear customer."),
        ("<text-482913>\nIt ends at </think> and goes on.", "It ends at </think> and goes on."),
        ("Dear customer.\n</text-482913>\nBye.", "Dear customer."),
        ("Dear " * 40, ""),
        ("Dear " * 41, "Dear " * 41),
    ],
)
def test_only_what_stands_between_the_marks_is_shown(text: str, visible: str) -> None:
    assert visible_text(text, "482913") == visible


def test_what_is_shown_of_a_marked_text_only_grows() -> None:
    parts = [visible_text(MARKED[:end], "482913") for end in range(len(MARKED) + 1)]
    assert all(after.startswith(before) for before, after in pairwise(parts))


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
