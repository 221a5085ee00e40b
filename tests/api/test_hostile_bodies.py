"""No body up to the limit holds the API or takes much memory."""

import re
import subprocess
import sys

import pytest

from app.api.dependencies import (
    FEW_VALUES,
    MAX_ERRORS,
    MAX_MEMBERS,
    MAX_VALUES,
    parsed,
    value_count,
)
from app.contract.errors import InvalidRequest
from app.contract.events import EventPage
from app.contract.requests import RefinementRequest
from tests.api.hostile_bodies import of_every_field, timed


def refused(body: bytes) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parsed(RefinementRequest, body)
    return caught.value


@pytest.mark.long
def test_a_field_takes_no_longer_and_has_no_more_errors_for_many_items() -> None:
    """On a quiet machine the slowest takes 5 ms."""
    seen = 0
    for each in of_every_field(values=2_500):
        took_s, said = timed(each)
        assert took_s < 1, each.place
        more = re.search(r" and (\d+) more", said)
        assert more is None or int(more[1]) <= MAX_MEMBERS + 100, f"{each.place}: {said}"
        assert "more than" not in said or each.contract is EventPage, each.place  # no request
        seen += 1
    assert seen > 500


def test_the_largest_bodies_take_little_time_and_memory() -> None:
    """On a quiet machine 0.04 s; without the bounds it was a minute, and gigabytes."""
    command = [sys.executable, "-m", "tests.api.hostile_bodies"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    longest_s, grown_mib = map(float, printed.split())
    assert longest_s < 1
    assert grown_mib < 100


def test_a_body_with_too_many_values_is_refused_as_a_whole() -> None:
    refusal = refused(b'{"draft":"a","tools":[%b{}]}' % (b"{}," * MAX_VALUES))
    assert refusal.detail == "the body must have at most 100000 values"


def test_texts_are_not_counted_as_values() -> None:
    text = rb"[1,2],{},\"a\",\\" * 10_000
    assert value_count(b'{"draft":"%b","metadata":{"a":"b"}}' % text) < 10


def test_a_body_with_many_values_may_be_valid() -> None:
    rows = b",".join([b"[%b]" % b",".join([b"1"] * 99)] * 900)
    names = b",".join(b'"c%d"' % number for number in range(99))
    validator = b'{"kind":"sql","dialect":"sqlite","tables":{"t":[%b]},"rows":{"t":[%b]}}'
    body = b'{"draft":"a","validators":[%b]}' % (validator % (names, rows))
    assert value_count(body) > 80_000
    assert len(parsed(RefinementRequest, body).validators) == 1


def test_an_object_with_too_many_members_is_refused() -> None:
    members = b",".join(b'"m%d":0' % number for number in range(MAX_VALUES // 2))
    [error] = refused(b'{"draft":"a","stop":{%b}}' % members).errors
    assert error.pointer == "/stop"
    assert str(MAX_MEMBERS) in error.detail


def test_in_a_small_body_all_wrong_items_are_reported() -> None:
    refusal = refused(b'{"draft":"a","criteria":[{},{}],"locked":[1,2]}')
    assert [error.pointer for error in refusal.errors] == [
        "/criteria/0/name",
        "/criteria/1/name",
        "/locked/0",
        "/locked/1",
    ]


def test_in_a_large_body_the_first_wrong_item_of_each_list_is_reported() -> None:
    items = b",".join([b"{}"] * FEW_VALUES)
    refusal = refused(b'{"draft":"a","criteria":[%b],"locked":[1,2]}' % items)
    assert [error.pointer for error in refusal.errors] == ["/criteria/0/name", "/locked/0"]
    assert len(refusal.errors) < MAX_ERRORS


def test_a_huge_name_is_not_repeated() -> None:
    [error] = refused(b'{"draft":"a","%b":1}' % (b"n" * 1_000_000)).errors
    assert len(error.pointer) < 300
