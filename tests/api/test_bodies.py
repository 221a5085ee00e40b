"""What is wrong with a body is said with a pointer into it."""

import pytest

from app.api.dependencies import MAX_ERRORS, parsed
from app.contract.errors import InvalidRequest
from app.contract.requests import RefinementRequest


def refused(body: bytes) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parsed(RefinementRequest, body)
    return caught.value


def pointers(body: bytes) -> list[str]:
    return [error.pointer for error in refused(body).errors]


def test_a_strategy_that_cannot_be_read_is_the_only_thing_told() -> None:
    assert pointers(b'{"task":"x","strategy":{"kind":"magic"}}') == ["/strategy"]


def test_an_empty_body_is_asked_for_an_object() -> None:
    assert refused(b" \n").detail == "the body is not JSON: it is empty; send an object, such as {}"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b'{"task":"x","threshold":2}', "/threshold"),
        (b'{"task":"x","threshold":"0.5"}', "/threshold"),
        (b'{"task":"x","max_iterations":true}', "/max_iterations"),
        (b'{"task":"x","color":1}', "/color"),
        (b'{"task":"x","a/b~c":1}', "/a~1b~0c"),
        (b'{"task":"x","strategy":{"kind":"magic"}}', "/strategy"),
        (b'{"task":"x","stop":{"max_seconds":1e999}}', "/stop/max_seconds"),
        (b'{"task":"x","validators":[{"kind":"regex"}]}', "/validators/0/pattern"),
        (
            b'{"task":"x","validators":[{"kind":"length","max_words":-1}]}',
            "/validators/0/max_words",
        ),
        (
            b'{"task":"x","validators":[{"kind":"length","max_words":1,"length":1}]}',
            "/validators/0/length",
        ),
        (b'{"task":"x","metadata":{"a b":"c"}}', "/metadata/a b"),
        (b'{"task":"x","models":{"critic":{"model":"a"}}}', "/models/critic/model"),
        (b'{"task":"x","criteria":[{"name":""}]}', "/criteria/0/name"),
        (b'{"draft":"a b a","locked":["b","a"]}', "/locked/1"),
        (b'{"task":"x","max_iterations":2,"strategy":{"kind":"best_of_n"}}', "/max_iterations"),
        (b'{"task":"x","strategy":{"kind":"critique"}}', "/draft"),
        (
            b'{"task":"x","tools":[{"name":"t","description":"d","url":"https://x.org","parameters":{}}]}',
            "/tools",
        ),
        (b'{"draft":"x","criteria":[{"name":"a"},{"name":"a"}]}', "/criteria"),
    ],
)
def test_an_error_points_at_the_value_in_the_body(body: bytes, pointer: str) -> None:
    assert pointer in pointers(body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b'{"task":"\\ud800"}',
        b'{"task":"\\udc00"}',
        b'{"task":"\xed\xa0\x80"}',
        b'{"task":"x","validators":[{"kind":"json_schema","schema":{"a":NaN}}]}',
        b'{"task":"x","threshold":Infinity}',
        b"[" * 50_000,
        b'{"task":"x","max_iterations":' + b"9" * 5_000 + b"}",
        b"{'task':'x'}",
    ],
)
def test_what_is_not_json_is_refused_as_a_whole(body: bytes) -> None:
    refusal = refused(body)
    assert "not JSON" in refusal.detail
    assert [error.pointer for error in refusal.errors] == [""]


@pytest.mark.parametrize(
    ("critic", "pointer", "said"),
    [
        (b'"gpt"', "/models/critic", "`provider:name`"),
        (b'{"model":"gpt"}', "/models/critic/model", "`provider:name`"),
        (b'{"model":"a:b","fallbacks":["a:b"]}', "/models/critic", "different from `model`"),
    ],
)
def test_what_is_wrong_with_a_model_is_said_once(critic: bytes, pointer: str, said: str) -> None:
    [error] = refused(b'{"task":"x","models":{"critic":' + critic + b"}}").errors
    assert error.pointer == pointer
    assert said in error.detail


@pytest.mark.parametrize("body", [b"null", b"[]", b"1", b'"task"', b"{}"])
def test_json_that_is_no_request_is_refused_at_the_root(body: bytes) -> None:
    assert pointers(body) == [""]


def test_of_two_equal_keys_the_last_counts() -> None:
    assert parsed(RefinementRequest, b'{"task":"a","task":"b"}').task == "b"


def test_many_errors_are_counted_and_the_first_are_shown() -> None:
    unknown = ",".join(f'"f{n}":1' for n in range(900))
    refusal = refused(b'{"task":"x",%b}' % unknown.encode())
    assert len(refusal.errors) == MAX_ERRORS
    assert refusal.detail.endswith("850 more that are not listed")


def test_an_error_does_not_repeat_a_huge_value() -> None:
    body = b'{"task":"x","strategy":{"kind":"%b"}}' % (b"k" * 100_000)
    assert len(refused(body).errors[0].detail) < 1_000


@pytest.mark.parametrize(
    ("strategy", "most"),
    [
        (b'{"kind":"self_consistency"}', 5),
        (b'{"kind":"best_of_n","n":6,"refine":true}', 7),
        (b'{"kind":"best_of_n","n":2}', 3),
        (b'{"kind":"iterative"}', 3),
    ],
)
def test_what_is_left_out_is_enough_for_the_drafts_of_a_strategy(
    strategy: bytes, most: int
) -> None:
    request = parsed(RefinementRequest, b'{"task":"x","strategy":%b}' % strategy)
    assert request.max_iterations == request.limits().max_iterations == most
    assert RefinementRequest.model_validate_json(request.model_dump_json()) == request
