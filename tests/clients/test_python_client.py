"""The Python client without a server: retries, errors, streams, other releases of the server."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

import hone
from app.contract import errors
from hone.async_client import PATIENCE_S
from hone.decoding import decode
from hone.errors import CLASSES
from hone.events import MessageReader, read_event
from hone.models import Snapshot

SNAPSHOT: dict[str, Any] = {
    "id": "ref_1",
    "status": "running",
    "last_event": 3,
    "usage": {"calls": 2},
    "result": {"draft": "Better.", "score": 0.9, "sha256": "0", "of_a_later_release": 1},
    "scores": [{"iteration": 1, "path": "iterations/1", "score": 0.5}],
}
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def client_of(
    *answers: httpx.Response | Exception, **options: Any
) -> tuple[hone.Hone, list[httpx.Request]]:
    """Return a client whose server gives these answers, and the requests that it gets."""
    given_, requests = list(answers), list[httpx.Request]()

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        next_ = given_.pop(0)
        if isinstance(next_, Exception):
            raise next_
        return next_

    http = httpx.Client(transport=httpx.MockTransport(answer))
    return hone.Hone("http://hone.test", http_client=http, **options), requests


def problem(status: int, code: str, **headers: str) -> httpx.Response:
    return httpx.Response(status, json={"code": code, "title": "T", "detail": "D"}, headers=headers)


def test_every_error_of_the_server_has_a_class() -> None:
    found = [getattr(it, "code", None) for it in vars(errors).values() if isinstance(it, type)]
    codes = {it for it in found if isinstance(it, str)}
    assert len(codes) > 10
    assert codes - CLASSES.keys() == {
        "internal"
    }  # a plain ApiError: a caller can do nothing else about it


def test_both_clients_have_the_same_methods() -> None:
    methods = [
        {name for name in vars(it) if not name.startswith("_")}
        for it in (hone.Hone, hone.AsyncHone)
    ]
    assert methods[0] ^ methods[1] == {"close", "aclose"}


def test_a_submission_is_repeated_with_the_same_key() -> None:
    client, requests = client_of(
        httpx.ConnectError("refused"),
        problem(503, "unavailable", **{"Retry-After": "0"}),
        httpx.Response(502, text="<html>"),
        httpx.Response(202, json=SNAPSHOT),
    )
    assert client.submit("Text", threshold=0.5).id == "ref_1"
    assert len({it.headers["Idempotency-Key"] for it in requests}) == 1
    assert [json.loads(it.content) for it in requests] == [{"threshold": 0.5, "draft": "Text"}] * 4


LOST = httpx.ReadError("the proxy was restarted")


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.finish("ref_1"),
        lambda client: client.change("ref_1", if_match=3, threshold=0.5),
        lambda client: client.review("ref_1", action="approve"),
        lambda client: client.request("POST", "/v1/endpoints/ep_1/rotate"),
        lambda client: client.request("POST", "/openai/v1/responses", headers={"X-A": "b"}),
    ],
)
def test_a_command_whose_answer_is_lost_is_repeated_with_the_same_key(
    call: Callable[[hone.Hone], object],
) -> None:
    client, requests = client_of(LOST, httpx.Response(200, json={**SNAPSHOT, "threshold": 0.5}))
    call(client)
    first, second = (it.headers["Idempotency-Key"] for it in requests)
    assert first == second
    assert "Idempotency-Key" not in get_of(client_of(httpx.Response(200, json=SNAPSHOT))).headers


def get_of(made: tuple[hone.Hone, list[httpx.Request]]) -> httpx.Request:
    client, requests = made
    client.get("ref_1")
    return requests[0]


@pytest.mark.parametrize("lost", [LOST, httpx.Response(502, text="<html>")])
def test_what_is_gone_after_an_answer_was_lost_was_erased(
    lost: httpx.Response | Exception,
) -> None:
    client, requests = client_of(lost, problem(404, "not_found"), problem(404, "not_found"))
    client.erase("ref_1")
    assert len(requests) == 2
    with pytest.raises(hone.NotFound):
        client.erase("ref_2")


@pytest.mark.parametrize(
    "path", ["/v1/keys", "/v1/keys/key_1/rotate", "/v1/endpoints", "/v1/presets/p/proposals"]
)
def test_where_no_key_is_taken_only_what_was_not_sent_is_repeated(path: str) -> None:
    client, requests = client_of(
        httpx.ConnectError("refused"), problem(429, "rate_limited"), LOST, LOST
    )
    with pytest.raises(hone.ServerUnreachable, match="the proxy was restarted"):
        client.request("POST", path, json={})
    assert len(requests) == 3


def test_retries_have_an_end() -> None:
    client, requests = client_of(*[httpx.ConnectError("refused")] * 3, max_retries=2)
    with pytest.raises(hone.ServerUnreachable, match=r"hone\.test is unreachable: refused"):
        client.get("ref_1")
    assert len(requests) == 3


def test_a_refusal_is_not_repeated_and_says_what_is_wrong() -> None:
    body: dict[str, Any] = {
        "code": "invalid_request",
        "title": "The request is invalid",
        "detail": "1 field is wrong",
        "errors": [{"pointer": "/threshold", "detail": "must be at most 1"}],
    }
    refusal = httpx.Response(422, json=body, headers={"X-Request-Id": "abc"})
    client, requests = client_of(refusal)
    with pytest.raises(hone.InvalidRequest, match="/threshold: must be at most 1") as caught:
        client.submit("Text", threshold=2)
    assert (caught.value.status, caught.value.request_id, len(requests)) == (422, "abc", 1)
    body["errors"].append({"pointer": "", "detail": "must have a draft"})
    error = hone.InvalidRequest(422, body)
    title, *rest = str(error).splitlines()
    assert title == "The request is invalid: 1 field is wrong"
    assert rest == ["  /threshold: must be at most 1", "  must have a draft"]


@pytest.mark.parametrize(
    ("errors", "read"),
    [
        (["upstream"], []),
        ({"upstream": 1}, []),
        ([{"pointer": 7}, None], [{"pointer": 7}]),
    ],
)
def test_what_a_gateway_calls_errors_does_no_harm(errors: object, read: object) -> None:
    client, _ = client_of(httpx.Response(400, json={"code": "x", "errors": errors}))
    with pytest.raises(hone.ApiError) as caught:
        client.get("ref_1")
    assert (caught.value.code, caught.value.errors) == ("x", read)


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.get("ref_1"),
        lambda client: client.wait("ref_1"),
        lambda client: client.submit("Text"),
        lambda client: client.iterations("ref_1"),
        lambda client: list(client.list()),
        lambda client: list(client.batch_results("batch_1")),
        lambda client: client.get_batch("batch_1"),
        lambda client: client.change("ref_1", threshold=0.5),
    ],
)
@pytest.mark.parametrize("body", [b"<html>\n</html>", b'{"status": "ok"}', b'{"id": 101}', b"[]"])
def test_the_answer_of_another_program_is_not_taken_for_hones(
    call: Callable[[hone.Hone], object], body: bytes
) -> None:
    client, _ = client_of(httpx.Response(200, content=body))
    with pytest.raises(hone.NotHone):
        call(client)


def test_an_exhausted_quota_is_not_waited_for() -> None:
    client, requests = client_of(problem(429, "quota_exceeded", **{"Retry-After": "50000"}))
    with pytest.raises(hone.QuotaExceeded):
        client.submit("Text")
    assert len(requests) == 1


def test_refine_raises_for_a_failure_and_gives_what_there_is() -> None:
    failed = {
        **SNAPSHOT,
        "status": "failed",
        "outcome": "failed",
        "error": {"code": "poisoned", "detail": "It kills."},
    }
    client, _ = client_of(httpx.Response(202, json=SNAPSHOT), httpx.Response(200, json=failed))
    with pytest.raises(hone.RefinementFailed, match="poisoned: It kills") as caught:
        client.refine("Text")
    assert caught.value.snapshot.result is not None
    assert caught.value.snapshot.result.draft == "Better."


def test_a_wait_has_an_end() -> None:
    client, _ = client_of(*[httpx.Response(200, json=SNAPSHOT)] * 2)
    with pytest.raises(hone.TimedOut, match="ref_1 is running") as caught:
        client.wait("ref_1", timeout=0)
    assert isinstance(caught.value, hone.HoneError)
    assert isinstance(caught.value, TimeoutError)


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.refine("Text", timeout=2),
        lambda client: client.wait("ref_1", timeout=2),
        lambda client: client.wait_for_batch("batch_1", timeout=2),
    ],
)
def test_no_attempt_and_no_pause_lasts_longer_than_the_wait(
    call: Callable[[hone.Hone], object],
) -> None:
    client, requests = client_of(
        httpx.ReadTimeout("silent"), problem(503, "", **{"Retry-After": "60"})
    )
    with pytest.raises(hone.TimedOut, match="not answered in time"):
        call(client)
    longest = [max(it.extensions["timeout"].values()) for it in requests]
    assert len(longest) == 2
    assert max(longest) <= 2


def test_a_wait_is_patient_from_its_first_look() -> None:
    ended = {**SNAPSHOT, "status": "succeeded"}
    restarting = httpx.ConnectError("refused"), problem(503, "unavailable")
    client, _ = client_of(*restarting, httpx.Response(200, json=ended), max_retries=0)
    assert client.wait("ref_1").status == "succeeded"
    impatient, _ = client_of(*restarting, max_retries=0, patience_s=0)
    with pytest.raises(hone.ServerUnreachable):
        impatient.wait("ref_1")
    late, _ = client_of(*restarting, max_retries=0)
    with pytest.raises(hone.TimedOut, match="has not answered in time"):
        late.wait("ref_1", timeout=0)


def test_a_held_request_ends_with_the_wait() -> None:
    client, requests = client_of(
        httpx.Response(200, json=SNAPSHOT), *[httpx.ReadTimeout("silent")] * 9
    )
    with pytest.raises(hone.TimedOut, match="ref_1 is running"):
        client.wait("ref_1", timeout=1)
    assert [max(it.extensions["timeout"].values()) for it in requests][:2] == [1.0, 1.0]


def test_a_batch_takes_dictionaries_that_were_made_before() -> None:
    client, requests = client_of(httpx.Response(202, json={"id": "batch_1"}))
    plain = {"mail-1": {"draft": "Text"}}
    defaults = {"threshold": 0.5}
    client.batch(plain, defaults=defaults)
    _, line = requests[0].content.splitlines()
    assert json.loads(line) == {"custom_id": "mail-1", "request": {"draft": "Text"}}


def test_a_snapshot_of_another_release_is_read() -> None:
    later = decode(Snapshot, {**SNAPSHOT, "status": "hibernating", "new": [1]})
    assert later.status == "hibernating"  # type: ignore[comparison-overlap]
    assert later.scores[0].score == 0.5
    assert later.waiting is None


def test_lists_are_read_page_by_page() -> None:
    pages = [
        {"data": [{**SNAPSHOT, "id": "a"}], "has_more": True, "next_cursor": "c"},
        {"data": [{**SNAPSHOT, "id": "b"}], "has_more": False, "next_cursor": None},
    ]
    client, requests = client_of(*(httpx.Response(200, json=it) for it in pages))
    assert [it.id for it in client.list(status="running", metadata={"k": "v"})] == ["a", "b"]
    assert requests[1].url.params == httpx.QueryParams(
        {"status": "running", "metadata.k": "v", "cursor": "c"}
    )


STREAM = {"Content-Type": "text/event-stream"}


def stream(*lines: str) -> httpx.Response:
    return httpx.Response(200, headers=STREAM, content="\n".join([*lines, "", ""]).encode())


def message(number: int, type_: str) -> list[str]:
    body = {"event": number, "type": type_, "at": "now", "data": {"number": number}}
    return [f"id: {number}", f"event: {type_}", f"data: {json.dumps(body)}", ""]


def test_a_stream_that_breaks_is_resumed_after_the_last_event() -> None:
    client, requests = client_of(
        stream(": welcome", *message(1, "of.a.later.release")),
        httpx.ConnectError("restarting"),
        httpx.Response(503, text="proxy"),
        stream(*message(2, "refinement.canceled")),
    )
    seen = list(client.events("ref_1"))
    assert [(it.event, it.is_terminal) for it in seen] == [(1, False), (2, True)]
    assert seen[0].data == {"number": 1}
    assert [it.headers["Last-Event-ID"] for it in requests] == ["0", "1", "1", "1"]
    assert PATIENCE_S > 60


def test_a_stream_that_may_not_be_opened_raises_the_problem() -> None:
    client, requests = client_of(problem(429, "quota_exceeded", **{"Retry-After": "0"}))
    with pytest.raises(hone.QuotaExceeded):
        list(client.events("ref_1"))
    assert len(requests) == 1


@pytest.mark.parametrize("what", ["events", "get"])
def test_each_attempt_waits_as_long_as_the_server_asks(what: str) -> None:
    asked_to_wait = list[float]()

    def stop(error: hone.HoneError, failures: int) -> None:
        assert isinstance(error, hone.ApiError | hone.ServerUnreachable)
        asked_to_wait.append(error.retry_after_s)
        if failures == 2:
            raise error

    refusals = [problem(429, "rate_limited", **{"Retry-After": it}) for it in ("0.5", "7")]
    client, _ = client_of(*refusals, on_retry=stop)
    with pytest.raises(hone.HoneError):
        list(client.events("ref_1")) if what == "events" else client.get("ref_1")
    assert asked_to_wait == [0.5, 7.0]


def test_a_redirected_stream_is_not_taken_for_hones() -> None:
    client, _ = client_of(httpx.Response(301, headers={"Location": "https://elsewhere.test"}))
    with pytest.raises(hone.NotHone, match=r"redirects to https://elsewhere\.test"):
        list(client.events("ref_1"))


def test_only_time_without_any_answer_counts_against_the_patience() -> None:
    """A stream that is quiet until it breaks has been answered, whenever the last event came."""
    breaking = [httpx.Response(200, headers=STREAM, stream=Breaking()) for _ in range(3)]
    client, _ = client_of(*breaking, stream(*message(1, "refinement.canceled")), patience_s=0.0)
    assert [it.event for it in client.events("ref_1")] == [1]


class Breaking(httpx.SyncByteStream):
    def __iter__(self) -> Iterator[bytes]:
        yield b": still here\n\n"
        raise LOST


def test_what_has_nothing_left_to_see_ends() -> None:
    client, _ = client_of(httpx.Response(204))
    assert list(client.events("ref_1", after=9)) == []


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.integers(1, 7),
)
def test_messages_do_not_depend_on_how_the_bytes_are_cut(
    texts: list[str], end: str, size: int
) -> None:
    sent = "".join(f": comment{end}data: {json.dumps(it)}{end}{end}" for it in texts).encode()
    sent += f": the last line end is complete{end}{end} ".encode()
    reader = MessageReader()
    found = [it for at in range(0, len(sent), size) for it in reader.feed(sent[at : at + size])]
    assert [json.loads(it.data) for it in found] == texts


def test_a_delta_is_no_journaled_event() -> None:
    (found,) = MessageReader().feed(b'event: step.delta\ndata: {"key": "k", "text": "He"}\n\n')
    assert (read_event(found).event, read_event(found).data["text"]) == (0, "He")


def test_a_webhook_is_verified_as_the_standard_has_it() -> None:
    body = json.dumps({"type": "refinement.completed", "timestamp": "t", "data": SNAPSHOT})
    now = datetime.now(tz=UTC)
    headers = {
        "Webhook-Id": "msg_1",
        "Webhook-Timestamp": str(int(now.timestamp())),
        "Webhook-Signature": Webhook(SECRET).sign("msg_1", now, body),
    }
    message_ = hone.verify_webhook(body, headers, SECRET)
    assert (message_.id, message_.type, message_.data.id) == (
        "msg_1",
        "refinement.completed",
        "ref_1",
    )
    for changed, why in (
        ({"Webhook-Id": "msg_2"}, "not that of this body"),
        ({"Webhook-Timestamp": str(int(now.timestamp()) - 600)}, r"signed 60\d s ago"),
        ({"Webhook-Timestamp": "now"}, "no number: 'now'"),
        ({"Webhook-Signature": "v1,AAAA"}, "not that of this body"),
    ):
        with pytest.raises(hone.WebhookRejected, match=why):
            hone.verify_webhook(body, headers | changed, SECRET)
    with pytest.raises(hone.WebhookRejected, match="header webhook-id is missing"):
        hone.verify_webhook(body, {}, SECRET)
    for secret in ("", "whsec_x"):
        with pytest.raises(hone.WebhookRejected, match="the secret is missing, or not base64"):
            hone.verify_webhook(body, headers, secret)
    with pytest.raises(hone.WebhookRejected):
        hone.verify_webhook(body + " ", headers, SECRET)
