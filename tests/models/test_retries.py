import pytest

from workers.outbound.transport import MOST_ASKED, RetryPolicy, may_pass, retry_after_s

NOON = "Wed, 21 Oct 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": " 0.5 "}, 0.5),
        ({"Retry-After": "-1"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "1_0"}, None),
        ({"retry-after-ms": "1e3", "Retry-After": "7"}, 7.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "Wed, 21 Oct 2026 12:00:30 GMT", "Date": NOON}, 30.0),
        ({"Retry-After": "Wed, 21 Oct 2026 11:00:00 GMT", "Date": NOON}, 0.0),
        ({"Retry-After": "Wed, 21 Oct 2015 12:00:00 GMT"}, 0.0),
        ({"Retry-After": "Wed, 99 Oct 2026 12:00:00 GMT"}, None),
        ({"Retry-After": "Wed, 21 Oct 99999999999 12:00:00 GMT"}, None),
        ({"Retry-After": "Wed, 21 Oct 2026 12:00:00 +99999999999999999999"}, None),
        ({"Retry-After": "Wed, 21 Oct 2015 12:00:00 GMT", "Date": "Wed, 21 Oct 99999999999"}, 0.0),
        ({"Retry-After": "Fri, 31 Dec 9999 12:00:00 GMT"}, MOST_ASKED),
        ({"Retry-After": "999999999999999"}, MOST_ASKED),
    ],
)
def test_retry_after_is_read_as_seconds_or_a_date(
    fields: dict[str, str], seconds: float | None
) -> None:
    assert retry_after_s(fields) == seconds


def test_waits_grow_to_a_limit_and_are_random_below_it() -> None:
    longest = RetryPolicy(total_s=60, random=lambda: 1.0)
    assert [longest.wait_s(n, None) for n in (1, 2, 3, 4, 9_999)] == [0.5, 1, 2, 4, 8]
    assert RetryPolicy(total_s=60, random=lambda: 0.25).wait_s(2, None) == 0.25


def test_a_wait_the_server_asks_for_is_never_shortened() -> None:
    assert RetryPolicy(total_s=60, random=lambda: 0.0).wait_s(1, 3.0) == 3.0
    assert RetryPolicy(total_s=60, random=lambda: 1.0).wait_s(1, 3.0) == 3.5


@pytest.mark.parametrize(
    ("status", "fields", "expected"),
    [
        (429, {}, True),
        (429, {"x-should-retry": "false"}, False),
        (503, {}, True),
        (529, {}, True),
        (400, {}, False),
        (404, {"x-should-retry": "true"}, False),
    ],
)
def test_only_a_refusal_that_may_be_gone_is_asked_again(
    status: int, fields: dict[str, str], expected: bool
) -> None:
    assert may_pass(status, fields) is expected
