"""What the client for HTTP promises, on either event loop."""

import asyncio
import gzip
import socket
import ssl
import zlib
from collections.abc import Callable
from typing import Literal

import pytest

from tests.outbound.conftest import OpenClient
from tests.outbound.raw_server import RawAnswer, raw_server
from tests.waiting import TIMEOUT_S
from workers.outbound.transport import (
    ConnectionBroken,
    HttpClient,
    HttpError,
    InvalidField,
    InvalidResponse,
    InvalidUrl,
    NotConnected,
    UntrustedPeer,
)

OK = b"HTTP/1.1 200 OK\r\n"
DONE = OK + b"Content-Length: 4\r\n\r\ndone"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


async def posted(
    client: HttpClient, url: str, body: bytes = b"{}", headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    """Status and body of the response to a request."""
    async with asyncio.timeout(TIMEOUT_S):
        reply = await client.post(url, headers or {}, body)
        try:
            read = b""
            while piece := await reply.read():
                read += piece
            return reply.status, read
        finally:
            reply.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110 - what is waited for is a counter, not an event
            await asyncio.sleep(0.005)


WHOLE = {
    "length": (RawAnswer(DONE), 200, b"done"),
    "empty": (RawAnswer(OK + b"Content-Length: 0\r\n\r\n"), 200, b""),
    "chunks": (RawAnswer(CHUNKED + b"2\r\ndo\r\n2\r\nne\r\n0\r\n\r\n"), 200, b"done"),
    "chunk extension and trailer": (
        RawAnswer(CHUNKED + b"4;x=y\r\ndone\r\n0\r\nX-Late: 9\r\n\r\n"),
        200,
        b"done",
    ),
    "spaces after a chunk's size": (RawAnswer(CHUNKED + b"4 \r\ndone\r\n0\r\n\r\n"), 200, b"done"),
    "closed at its end": (RawAnswer(OK + b"\r\ndone", "close"), 200, b"done"),
    "of HTTP/1.0": (RawAnswer(b"HTTP/1.0 200 OK\r\n\r\ndone", "close"), 200, b"done"),
    "after 100": (RawAnswer(b"HTTP/1.1 100 Continue\r\n\r\n" + DONE), 200, b"done"),
    "after 103 twice": (
        RawAnswer(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 2 + DONE),
        200,
        b"done",
    ),
    "204": (RawAnswer(b"HTTP/1.1 204 No Content\r\n\r\n"), 204, b""),
    "304": (RawAnswer(b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n"), 304, b""),
    "no reason": (RawAnswer(b"HTTP/1.1 429\r\nContent-Length: 4\r\n\r\nslow"), 429, b"slow"),
    "LF only": (RawAnswer(b"HTTP/1.1 200 OK\nContent-Length: 4\n\ndone"), 200, b"done"),
}


@pytest.mark.parametrize("piece", [1_000_000, 1])
async def test_a_response_is_read_whole_however_it_is_framed_and_however_slowly_it_comes(
    open_client: OpenClient, piece: int
) -> None:
    read = {}
    for name, (answer, _, _) in WHOLE.items():
        slowed = RawAnswer(answer.sent, answer.then, piece)
        async with raw_server(slowed) as server, open_client() as client:
            read[name] = await posted(client, server.url)
    assert read == {name: (status, body) for name, (_, status, body) in WHOLE.items()}


async def test_a_request_is_sent_with_its_fields_and_its_body(open_client: OpenClient) -> None:
    async with raw_server(DONE) as server, open_client() as client:
        await posted(client, f"{server.url}?api-version=ü 1", b'{"a":1}', {"X-Key": "k: é"})
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /v1/chat?api-version=%C3%BC+1 HTTP/1.1"
    assert {b"Host: " + server.url[7:22].encode().split(b"/")[0], b"Content-Length: 7"} <= {*lines}
    assert "X-Key: k: é".encode() in lines
    assert body == b'{"a":1}'


async def test_a_login_in_the_url_is_sent_as_a_field(open_client: OpenClient) -> None:
    async with raw_server(DONE) as server, open_client() as client:
        await posted(client, server.url.replace("http://", "http://us%40r:pass@"))
    assert b"\r\nAuthorization: Basic dXNAcjpwYXNz\r\n" in server.requests[0]


async def test_fields_are_read_in_any_case_and_no_trailer_or_early_hint_is_one(
    open_client: OpenClient,
) -> None:
    answer = (
        b"HTTP/1.1 103 Hints\r\nX-Early: 1\r\n\r\n"
        + OK
        + b"retry-AFTER: 7 \t\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"4\r\ndone\r\n0\r\nX-Late: 1\r\n\r\n"
    )
    async with raw_server(answer) as server, open_client() as client:
        reply = await client.post(server.url, {}, b"")
        while await reply.read():
            pass
        reply.close()
    assert reply.fields.get("Retry-After") == "7"
    assert {name.lower() for name in reply.fields} == {"retry-after", "transfer-encoding"}


REUSED = {
    "length": RawAnswer(DONE),
    "chunks": RawAnswer(CHUNKED + b"4\r\ndone\r\n0\r\n\r\n"),
    "204": RawAnswer(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "after 100": RawAnswer(b"HTTP/1.1 100 Continue\r\n\r\n" + DONE),
    "1.0": RawAnswer(b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n"),
}
NOT_REUSED = {
    "close": RawAnswer(OK + b"Connection: close\r\nContent-Length: 4\r\n\r\ndone"),
    "1.0": RawAnswer(b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\ndone"),
    "closed at its end": RawAnswer(OK + b"\r\ndone", "close"),
    "closed after it": RawAnswer(DONE, "close"),
    "two responses": RawAnswer(DONE + DONE),
}


@pytest.mark.parametrize(("answers", "connections"), [(REUSED, 1), (NOT_REUSED, 2)])
async def test_a_connection_is_used_again_only_after_a_whole_response_with_nothing_behind_it(
    open_client: OpenClient, answers: dict[str, RawAnswer], connections: int
) -> None:
    used = {}
    for name, answer in answers.items():
        async with raw_server(answer) as server, open_client() as client:
            first = await posted(client, server.url)
            if connections > 1:
                await until(lambda: server.ended == 1)
                await asyncio.sleep(0.02)  # the client has yet to hear of it
            assert await posted(client, server.url) == first
            used[name] = server.connections
    assert used == dict.fromkeys(answers, connections)


async def test_a_response_that_was_not_read_to_its_end_closes_its_connection(
    open_client: OpenClient,
) -> None:
    hanging = RawAnswer(OK + b"Content-Length: 9\r\n\r\ndone", "hang")
    async with raw_server(hanging, DONE) as server, open_client() as client:
        reply = await client.post(server.url, {}, b"")
        assert await reply.read() == b"done"
        reply.close()
        assert await posted(client, server.url) == (200, b"done")
        await until(lambda: server.ended == 1)
        assert server.connections == 2


CUT = {
    "at once": b"",
    "in the head": OK + b"Content-Le",
    "before the body": DONE[:-4],
    "in the body": DONE[:-1],
    "before the first chunk": CHUNKED,
    "in a chunk": CHUNKED + b"9\r\ndone",
    "before the last chunk": CHUNKED + b"4\r\ndone\r\n",
    "after an early response": b"HTTP/1.1 100 Continue\r\n\r\n",
}


@pytest.mark.parametrize("then", ["close", "reset"])
async def test_a_response_that_is_cut_off_is_no_response(
    open_client: OpenClient, then: Literal["close", "reset"]
) -> None:
    seen = {}
    for name, sent in CUT.items():
        async with raw_server(RawAnswer(sent, then), DONE) as server, open_client() as client:
            with pytest.raises(HttpError) as failed:
                await posted(client, server.url)
            seen[name] = (failed.type, len(server.requests))
            assert await posted(client, server.url) == (200, b"done")
    assert seen == dict.fromkeys(CUT, (ConnectionBroken, 1))


INVALID = {
    "garbage": b"It works!\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "both framings": OK + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndone",
    "two lengths": OK + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\ndone!",
    "negative length": OK + b"Content-Length: -4\r\n\r\ndone",
    "no length": OK + b"Content-Length: four\r\n\r\ndone",
    "a field without a name": OK + b": x\r\n\r\n",
    "headers without end": OK + b"X: " + b"x" * 1_000_000,
    "fields without end": OK + b"X: x\r\n" * 100_000,
}


async def test_what_is_not_http_is_refused_and_its_connection_closed(
    open_client: OpenClient,
) -> None:
    seen = {}
    for name, sent in INVALID.items():
        async with raw_server(RawAnswer(sent, "hang"), DONE) as server, open_client() as client:
            with pytest.raises(HttpError) as failed:
                await posted(client, server.url)
            seen[name] = failed.type
            await until(lambda: server.ended == 1)
            assert await posted(client, server.url) == (200, b"done")
    assert seen == dict.fromkeys(INVALID, InvalidResponse)


@pytest.mark.parametrize(
    "sent", [CHUNKED + b"four\r\n", CHUNKED + b"4\r\ndonemore\r\n", CHUNKED + b"ffffffffffffffffff"]
)
async def test_chunks_that_are_none_end_the_response(open_client: OpenClient, sent: bytes) -> None:
    async with raw_server(RawAnswer(sent, "hang")) as server, open_client() as client:
        with pytest.raises(HttpError):
            await posted(client, server.url)
        await until(lambda: server.ended == 1)


async def test_a_connection_that_the_server_closed_while_it_was_idle_is_not_used(
    open_client: OpenClient,
) -> None:
    async with raw_server(RawAnswer(DONE, "close"), DONE) as server, open_client() as client:
        for _ in range(3):
            await posted(client, server.url)
            await asyncio.sleep(0.05)
    assert len(server.requests) == 3


async def test_a_request_that_a_kept_connection_loses_is_not_sent_again(
    open_client: OpenClient,
) -> None:
    async with raw_server(DONE, RawAnswer(b"", "close"), DONE) as server, open_client() as client:
        await posted(client, server.url)
        with pytest.raises(ConnectionBroken):
            await posted(client, server.url)
        assert (len(server.requests), server.connections) == (2, 1)


async def test_a_response_that_comes_before_the_request_was_read_is_taken(
    open_client: OpenClient,
) -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig"
    early = RawAnswer(refusal, "hang", is_early=True)
    async with raw_server(early, DONE) as server, open_client() as client:
        assert await posted(client, server.url, b"x" * 32_000_000) == (413, b"big")
        assert await posted(client, server.url) == (200, b"done")
        assert server.connections == 2


async def test_a_large_request_and_a_large_response_arrive_whole(open_client: OpenClient) -> None:
    body = bytes(range(256)) * 40_000
    answer = OK + b"Content-Length: %d\r\n\r\n" % len(body) + body
    async with raw_server(answer) as server, open_client() as client:
        assert await posted(client, server.url, body) == (200, body)
        assert await posted(client, server.url, body) == (200, body)
        assert server.requests[1].endswith(body)
        assert server.connections == 1


async def test_a_response_that_is_not_read_is_not_kept_in_memory(open_client: OpenClient) -> None:
    size = 64_000_000
    answer = RawAnswer(OK + b"Content-Length: %d\r\n\r\n" % size + b"x" * size, piece=100_000)
    async with raw_server(answer) as server, open_client() as client:
        reply = await client.post(server.url, {}, b"")
        sent = -1
        while sent != server.bytes_sent:
            sent = server.bytes_sent
            await asyncio.sleep(0.1)
        assert sent < size / 2
        read = 0
        while piece := await reply.read():
            read += len(piece)
        reply.close()
    assert read == size


async def test_a_cancelled_call_closes_its_connection_at_once(open_client: OpenClient) -> None:
    for sent in CUT.values():
        async with raw_server(RawAnswer(sent, "hang"), DONE) as server, open_client() as client:
            call = asyncio.create_task(posted(client, server.url))
            await until(lambda: server.is_answered)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await until(lambda: server.ended == 1)
            assert await posted(client, server.url) == (200, b"done")
            assert server.connections == 2


async def test_a_field_that_would_begin_another_is_not_sent(open_client: OpenClient) -> None:
    async with raw_server(DONE) as server, open_client() as client:
        for value in ("a\r\nX-Other: b", "a\nb", "a\rb", "a\0b", "key\n"):
            with pytest.raises(InvalidField):
                await posted(client, server.url, headers={"X-Key": value})
            with pytest.raises(InvalidField):
                await posted(client, server.url, headers={value: "x"})
    assert server.requests == []


NOWHERE = ("", "h/x", "ftp://127.0.0.1/", "http://", "http://h:99999/", f"http://{'a' * 70}.de/")


async def test_a_url_that_leads_nowhere_is_refused(open_client: OpenClient) -> None:
    async with open_client() as client:
        for url in NOWHERE:
            with pytest.raises(InvalidUrl):
                await posted(client, url)


async def test_a_server_that_is_not_there_is_not_connected(open_client: OpenClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    async with open_client() as client:
        with pytest.raises(NotConnected, match=r"^Connection refused$"):
            await posted(client, f"http://127.0.0.1:{port}/")


async def test_a_handshake_that_does_not_end_is_given_up(open_client: OpenClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with open_client(connect_s=0.2) as client:
            with pytest.raises(NotConnected, match="connection timeout"):
                await posted(client, f"https://127.0.0.1:{silent.getsockname()[1]}/")


async def test_a_server_that_leaves_during_the_handshake_is_not_connected(
    open_client: OpenClient,
) -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.transport.abort()

    async with (
        await asyncio.start_server(leave, "127.0.0.1", 0) as server,
        open_client() as client,
    ):
        with pytest.raises(NotConnected, match=r"\w"):
            await posted(client, f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")


async def test_a_server_without_tls_is_not_connected(open_client: OpenClient) -> None:
    async def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with (
        await asyncio.start_server(refuse, "127.0.0.1", 0) as server,
        open_client() as client,
    ):
        with pytest.raises(NotConnected, match="SSL"):
            await posted(client, f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")


async def test_over_tls_responses_are_read_and_connections_used_again(
    open_client: OpenClient, tls: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    body = b"x" * 3_000_000
    large = RawAnswer(CHUNKED + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")
    async with raw_server(DONE, large, tls=tls[0]) as server, open_client(tls=tls[1]) as client:
        assert await posted(client, server.url) == (200, b"done")
        assert await posted(client, server.url, body) == (200, body)
        assert server.connections == 1


@pytest.mark.parametrize(
    ("sent", "body"), [(DONE[:-1], None), (OK + b"\r\ndone", b"done"), (OK, None)]
)
async def test_over_tls_the_end_of_the_connection_means_what_it_means_without(
    open_client: OpenClient,
    tls: tuple[ssl.SSLContext, ssl.SSLContext],
    sent: bytes,
    body: bytes | None,
) -> None:
    answer = RawAnswer(sent, "close")  # without a close_notify
    async with raw_server(answer, tls=tls[0]) as server, open_client(tls=tls[1]) as client:
        if body is not None:
            assert await posted(client, server.url) == (200, body)
            return
        with pytest.raises(ConnectionBroken):
            await posted(client, server.url)


async def test_a_server_is_told_which_name_is_called_and_must_have_a_certificate_for_it(
    open_client: OpenClient, tls: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    def note(_tls: object, name: str | None, _context: object) -> None:
        asked.append(name)

    asked: list[str | None] = []
    tls[0].sni_callback = note
    async with raw_server(DONE, tls=tls[0]) as server, open_client(tls=tls[1]) as client:
        with pytest.raises(UntrustedPeer):  # it is one for the address alone
            await posted(client, server.url.replace("127.0.0.1", "localhost"))
        assert await posted(client, server.url) == (200, b"done")
        assert len(server.requests) == 1
    assert asked == ["localhost", None]


async def test_a_certificate_that_nobody_vouches_for_is_untrusted(
    open_client: OpenClient, tls: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    async with raw_server(DONE, tls=tls[0]) as server, open_client() as client:
        with pytest.raises(UntrustedPeer):
            await posted(client, server.url)
        assert server.requests == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_a_response_and_not_followed(
    open_client: OpenClient, status: int
) -> None:
    head = b"HTTP/1.1 %d Moved\r\nLocation: /elsewhere\r\nContent-Length: 4\r\n\r\ndone" % status
    async with raw_server(head, DONE) as server, open_client() as client:
        assert await posted(client, server.url) == (status, b"done")
        assert len(server.requests) == 1


async def test_a_compressed_body_is_returned_as_it_was_sent(open_client: OpenClient) -> None:
    packed = {
        "gzip": gzip.compress(b"done"),
        "deflate": zlib.compress(b"done"),
        "br": b"not looked at",
    }
    for coding, body in packed.items():
        head = OK + b"Content-Encoding: %b\r\nContent-Length: %d\r\n\r\n"
        sent = head % (coding.encode(), len(body)) + body
        async with raw_server(sent) as server, open_client() as client:
            assert await posted(client, server.url) == (200, body)


async def test_100_requests_at_once_have_a_connection_each_and_then_share_them(
    open_client: OpenClient,
) -> None:
    async with raw_server(DONE) as server, open_client() as client:
        for _ in range(2):
            replies = await asyncio.gather(*[posted(client, server.url) for _ in range(100)])
            assert replies == [(200, b"done")] * 100
        assert server.connections <= 100
        assert len(server.requests) == 200
