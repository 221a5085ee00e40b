"""Reading server-sent events, however the network cuts them up."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.cli.client import Message, messages

STREAM = b'id: 1\nevent: a\ndata: {"x": "\xe2\x80\xa8"}\n\n: still here\n\nid: 2\r\ndata: y\r\n\r\n'
SAID = [Message("1", "a", '{"x": "\u2028"}'), None, Message("2", "", "y")]


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_the_same_messages_come_of_a_stream_cut_anywhere(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[start:end] for start, end in pairwise(edges)]
    assert list(messages(chunks)) == SAID


def test_an_event_that_the_end_cuts_off_is_not_told() -> None:
    assert list(messages([b"id: 1\ndata: whole\n\nid: 2\ndata: ha"])) == [Message("1", "", "whole")]


def test_data_in_several_lines_is_joined_by_line_ends() -> None:
    assert list(messages([b"data: one\ndata:two\n\n"])) == [Message("", "", "one\ntwo")]


def test_a_field_without_data_is_no_event() -> None:
    assert list(messages([b"id: 7\n\ndata: x\n\n"])) == [Message("", "", "x")]
