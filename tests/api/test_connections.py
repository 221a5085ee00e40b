"""Connections that dawdle, and a process that has to leave."""

import asyncio
import errno
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection

import httpx
import pytest

from app.api.server import Connection
from app.settings import Settings
from app.store import WorkerStore
from tests.api.api_client import REQUEST, ManualWorker, submitted
from tests.api.conftest import running
from tests.ports import reserved_port
from tests.waiting import TIMEOUT_S, eventually

HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
LONG_URL = b"GET /healthz?" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = (
    b"POST /v1/refinements HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)
BODY = (
    b"POST /v1/refinements HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
)


class ShortTimeouts(Connection):
    """A server's side of a connection that waits only shortly."""

    arrival_s = 1.0
    stall_s = 0.5


@pytest.fixture(scope="module")
def impatient(settings: Settings) -> Iterator[str]:
    with running(settings, connection=ShortTimeouts) as url:
        yield url


def said(server: str, *request: bytes) -> bytes:
    """Send some bytes, in several packets, and return all that comes until the server closes."""
    with connected(server) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in request:
            connection.sendall(part)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def connected(server: str) -> socket.socket:
    host, port = server.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=TIMEOUT_S)


@pytest.mark.parametrize("request_", [HEAD, BODY, HEAD + b"Expect: 100-continue\r\n"])
def test_a_request_that_does_not_arrive_is_closed_with_a_problem(
    impatient: str, request_: bytes
) -> None:
    answer = said(impatient, request_)
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b'"code":"request_timeout"' in answer


def test_a_body_that_trickles_in_is_closed(impatient: str) -> None:
    with connected(impatient) as connection:
        connection.sendall(BODY.replace(b"Length: 9", b"Length: 900"))
        connection.settimeout(0.2)
        assert eventually(lambda: trickled(connection).startswith(b"HTTP/1.1 408"))


def trickled(connection: socket.socket) -> bytes:
    """Send one more byte, and return what is answered within a moment."""
    connection.send(b" ")
    try:
        return connection.recv(65_536)
    except TimeoutError:
        return b""


@pytest.mark.long
def test_what_is_no_request_behind_one_ends_the_connection_and_is_no_error_of_the_server(
    impatient: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert said(impatient, HEAD + b"\r\n" + b"0\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert said(impatient, HEAD + b"\r\n").startswith(b"HTTP/1.1 200")
    assert [it.message for it in caplog.records if it.levelno >= logging.ERROR] == []


def test_a_connection_without_a_request_is_closed_without_a_word(impatient: str) -> None:
    assert said(impatient, b"") == b""


class SlowSenders(ShortTimeouts):
    """A server's side of a connection that gives a body a second per kB."""

    slowest_sender = 1_000


def test_a_large_body_has_the_time_it_needs(settings: Settings) -> None:
    """200 kB are minutes more than the second that a request has."""
    head = b"POST /v1/refinements HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    body = b'{"draft":"%b"}' % (b"x" * 199_000)
    with (
        running(settings, connection=SlowSenders) as server,
        connected(server) as connection,
    ):
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body[:190_000])
        time.sleep(2)
        connection.sendall(body[190_000:])
        assert connection.recv(20) == b"HTTP/1.1 202 Accepted"[:20]


async def test_a_watcher_that_reads_nothing_is_cut_off(impatient: str, worker: WorkerStore) -> None:
    async with httpx.AsyncClient(base_url=impatient, timeout=TIMEOUT_S) as api:
        refinement_id = await submitted(api)
        manual = await ManualWorker.claim(worker, refinement_id)
        for number in range(1, 60):
            await manual.judge(number, "x" * 150_000, 0.5)
        path = f"/v1/refinements/{refinement_id}/events"
        with socket.socket() as idler:
            idler.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            host, port = impatient.removeprefix("http://").split(":")
            idler.connect((host, int(port)))
            idler.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert await asyncio.to_thread(eventually, lambda: was_reset(idler))


def was_reset(connection: socket.socket) -> bool:
    return connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNRESET


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        (b"hello\r\n\r\n", b"400", b"malformed_header"),
        (b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400", b"malformed_header"),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400", b"malformed_header"),
        (HEAD + b"A: " + b"a" * 70_000, b"431", b"headers_too_large"),
        (HEAD + b"A: " + b"a" * 70_000 + b"\r\n\r\n", b"431", b"headers_too_large"),
        (LONG_URL + b"\r\n\r\n", b"431", b"headers_too_large"),
        (CHUNKED + b"0\r\n" + b"X: a\r\n" * 100_000, b"431", b"headers_too_large"),
        (CHUNKED + b"0\r\nX: " + b"a" * 700_000, b"431", b"headers_too_large"),
        (CHUNKED + b"1\r\n \r\n" * 200_000, b"431", b"headers_too_large"),
        (CHUNKED + b"1;" + b"a" * 700_000, b"431", b"headers_too_large"),
    ],
)
def test_what_is_no_decent_request_is_a_problem(
    server: str, request_: bytes, status: bytes, code: bytes
) -> None:
    answer = said(server, request_)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert code in answer


def test_a_body_in_small_chunks_arrives_and_its_trailers_are_not_heeded(server: str) -> None:
    body = b'{"task": "' + b"a" * 6_000 + b'", "no_such_field": 1}'
    chunks = [b"18\r\n%b\r\n" % body[at : at + 24].ljust(24) for at in range(0, len(body), 24)]
    trailers = b"0\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    head = CHUNKED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    answer = said(server, head, *chunks, trailers)
    assert answer.startswith(b"HTTP/1.1 422 ")
    assert b"no_such_field" in answer


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_a_client_that_sends_all_before_it_reads_gets_the_refusal_and_no_reset(
    server: str, version: bytes
) -> None:
    size = 10_000_000
    head = b"POST /v1/refinements HTTP/%b\r\nHost: localhost\r\nConnection: close\r\n" % version
    fields = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % size
    answer = said(server, head + fields, b"x" * size)
    assert answer.startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("connection", [b"close", b"keep-alive"])
def test_a_client_of_http_1_0_is_sent_no_chunks(server: str, connection: bytes) -> None:
    refinement = httpx.post(f"{server}/v1/refinements", json=REQUEST, timeout=TIMEOUT_S).json()[
        "id"
    ]
    httpx.post(f"{server}/v1/refinements/{refinement}/cancel", timeout=TIMEOUT_S)
    request = f"GET /v1/refinements/{refinement}/events HTTP/1.0\r\nHost: localhost\r\n".encode()
    fields = b"Last-Event-ID: 1 \r\nConnection: %b\r\n\r\n" % connection
    head, _, body = said(server, request, fields).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"transfer-encoding" not in head.lower()
    assert b"connection: close" in head.lower()
    assert body.startswith(b"retry: 1000\nid: 2\nevent: refinement.canceled\ndata: {")
    assert body.endswith(b"}\n\n")


def test_a_client_of_http_1_0_is_sent_what_has_a_length(server: str) -> None:
    answer = said(server, b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert b"\r\ncontent-length: 15\r\n" in answer
    assert answer.endswith(b'\r\n\r\n{"status":"ok"}')


@pytest.fixture
def process(settings: Settings, redis_url: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The API as its own process."""
    told = {
        "HONE_REDIS_URL": redis_url,
        "HONE_REDIS_TIMEOUT_S": "60",
        "HONE_GRACE_S": "300",
    }
    command = [sys.executable, "-m", "app.cli", "api"]
    with (
        reserved_port() as port,
        subprocess.Popen(command, env=os.environ | told | {"HONE_PORT": str(port)}) as process,
    ):
        url = f"http://127.0.0.1:{port}"
        try:
            assert eventually(lambda: is_up(url))
            yield process, url
        finally:
            process.kill()


def is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=TIMEOUT_S).status_code == 200
    except httpx.TransportError:
        return False


def test_sigterm_ends_open_streams_and_polls_cleanly(
    process: tuple[subprocess.Popen[bytes], str],
) -> None:
    api, url = process
    refinement = (
        f"{url}/v1/refinements/"
        + httpx.post(f"{url}/v1/refinements", json=REQUEST, timeout=TIMEOUT_S).json()["id"]
    )
    opened: list[str] = []
    ended: list[str] = []

    def watch() -> None:
        with httpx.stream("GET", f"{refinement}/events", timeout=TIMEOUT_S) as response:
            opened.extend(response.iter_lines())
        ended.append("stream")  # a stream that was torn would have raised

    polling = HTTPConnection("127.0.0.1", int(url.rpartition(":")[2]), timeout=TIMEOUT_S)
    with closing(polling):
        polling.request("GET", f"{refinement.removeprefix(url)}?wait=60")
        watchers = [threading.Thread(target=watch) for _ in range(5)]
        for thread in watchers:  # the poll, sent before, has arrived when all streams are open
            thread.start()
        assert eventually(lambda: opened.count("id: 1") == 5)
        api.send_signal(signal.SIGTERM)
        assert api.wait(TIMEOUT_S) == 0
        for thread in watchers:
            thread.join()
        assert polling.getresponse().status == 200
    assert ended == ["stream"] * 5
