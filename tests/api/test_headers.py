"""What clients say in headers."""

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from app.api.dependencies import (
    event_number,
    idempotency_key,
    preferred_type,
    preferred_wait_s,
    seen_events,
    takes_gzip,
    versions_in,
)
from app.contract.errors import MalformedHeader
from app.store import WorkerStore
from tests.api.api_client import ended

OFFERED = ("text/event-stream", "application/json")


@pytest.mark.parametrize(
    ("prefer", "wait_s"),
    [
        ([], None),
        (["wait=30"], 30),
        (["respond-async, wait=10"], 10),
        (["handling=lenient; x=1", 'WAIT = "5"'], 5),
        (["wait=1, wait=2"], 1),
        (["wait=60"], 60),
        (["wait=61"], 60),
        (["wait=soon"], None),
        (["respond-async", ""], None),
    ],
)
def test_prefer_is_read_as_rfc_7240_says(prefer: list[str], wait_s: int | None) -> None:
    assert preferred_wait_s(prefer) == wait_s


@pytest.mark.parametrize("prefer", ["wait", "wait=", "wait=-1", "wait=1.5", "wait=\u0661"])
def test_a_wait_that_is_no_whole_number_is_ignored(prefer: str) -> None:
    assert preferred_wait_s([prefer]) is None


@pytest.mark.parametrize(
    ("if_match", "versions"),
    [
        ([], None),
        (["*"], None),
        (['"7"'], {7}),
        (['"6", "7"', '"8"'], {6, 7, 8}),
        (['W/"7"'], set()),
        (["7"], set()),
        ([""], set()),
    ],
)
def test_if_match_names_versions_by_strong_tags(
    if_match: list[str], versions: set[int] | None
) -> None:
    assert versions_in(if_match) == versions


@pytest.mark.parametrize("value", ["", " 1", "-1", "1.0", "+1", "0x1", "\u0661", "1" * 19, "null"])
def test_an_event_number_is_digits_and_nothing_else(value: str) -> None:
    with pytest.raises(MalformedHeader):
        event_number(value)


@pytest.mark.parametrize(
    ("header", "key"),
    [("abc", "abc"), ('"abc"', "abc"), (r'"a\"b\\"', 'a"b\\'), ('a"b', 'a"b'), (None, None)],
)
def test_a_key_is_the_same_quoted_or_bare(header: str | None, key: str | None) -> None:
    assert idempotency_key(header) == key


@pytest.mark.parametrize("header", ["", '""', "a" * 256, "caf\u00e9", "a\tb"])
def test_a_key_has_1_to_255_printable_characters(header: str) -> None:
    with pytest.raises(MalformedHeader):
        idempotency_key(header)


@pytest.mark.parametrize(
    ("if_none_match", "seen", "unseen"),
    [
        (['"7"'], 7, 8),
        (['"6", W/"7"'], 7, 8),
        (['"6"', '"7"'], 6, 8),
        (['"x", 7, "7'], None, 7),
    ],
)
def test_a_tag_names_the_event_it_was_made_of(
    if_none_match: list[str], seen: int | None, unseen: int
) -> None:
    events = seen_events(if_none_match)
    assert events is not None
    assert seen is None or seen in events
    assert unseen not in events


def test_without_if_none_match_nothing_was_seen_and_a_star_is_everything() -> None:
    assert seen_events([]) is None
    assert 3 in (seen_events(["*"]) or ())


@pytest.mark.parametrize(
    ("accept", "answer"),
    [
        ([], "text/event-stream"),
        (["*/*"], "text/event-stream"),
        (["text/event-stream"], "text/event-stream"),
        (["application/json"], "application/json"),
        (["application/*;q=0.9, text/*;q=0.1"], "application/json"),
        (["text/event-stream;q=0, */*"], "application/json"),
        (["text/html, application/xhtml+xml, */*;q=0.8"], "text/event-stream"),
        (["text/html"], None),
        (["application/json;q=0"], None),
        (["application/json;q=high"], None),
    ],
)
def test_accept_is_weighed_as_rfc_9110_says(accept: list[str], answer: str | None) -> None:
    assert preferred_type(accept, OFFERED) == answer


@pytest.mark.parametrize(
    ("accepted", "is_taken"),
    [
        ("gzip, deflate, br", True),
        ("GZIP", True),
        ("*", True),
        ("br, *;q=0.1", True),
        ("gzip;q=0", False),
        ("gzip;q=0, *", False),
        ("identity", False),
        ("", False),
    ],
)
def test_gzip_is_for_who_takes_it(accepted: str, is_taken: bool) -> None:
    headers = [(b"accept-encoding", accepted.encode())] if accepted else []
    assert takes_gzip(Request({"type": "http", "headers": headers})) is is_taken


async def test_every_response_that_was_chosen_by_accept_says_so_to_caches(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement_id = await ended(api, worker)
    document = (await api.get("/openapi.json")).json()
    negotiated = {
        path: it["get"]["responses"]["200"]["content"]
        for path, it in document["paths"].items()
        if "406" in it.get("get", {}).get("responses", {}) and path != "/v1/audit"  # needs a key
    }
    assert len(negotiated) > 2
    for path, media_types in negotiated.items():
        for media_type in {it.replace("*", "json") for it in media_types}:
            url = path.format(refinement_id=refinement_id)
            query = {"of": "usage"} if path == "/v1/statistics" else {}
            found = await api.get(url, params=query, headers={"Accept": media_type})
            assert found.headers["content-type"].partition(";")[0] == media_type
            assert found.headers["vary"] == "Accept", (path, media_type)
    last = (await api.get(f"/v1/refinements/{refinement_id}")).json()["last_event"]
    seen = await api.get(f"/v1/refinements/{refinement_id}/events", params={"after": last})
    assert (seen.status_code, seen.headers["vary"]) == (204, "Accept")


@given(st.text(st.characters(max_codepoint=255), max_size=60))
def test_any_header_is_read_or_refused(text: str) -> None:
    readers = (
        lambda: preferred_wait_s([text]),
        lambda: seen_events([text]),
        lambda: idempotency_key(text),
        lambda: preferred_type([text], OFFERED),
        lambda: event_number(text),
    )
    for read in readers:
        try:
            read()
        except MalformedHeader as refusal:
            assert refusal.detail  # noqa: PT017 - either way out is fine
