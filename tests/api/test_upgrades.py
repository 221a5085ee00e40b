"""Clients that ask to switch to HTTP/2 are served over HTTP/1.1, with their bodies."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.api.api_client import REQUEST
from tests.api.test_connections import said
from tests.waiting import TIMEOUT_S

BODY = json.dumps(REQUEST).encode()
UPGRADES = (
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
    b"Upgrade: websocket\r\nConnection: keep-alive, upgrade\r\nSec-WebSocket-Version: 13\r\n",
)


def head(upgrade: bytes, length: bytes = b"Content-Length: %d\r\n" % len(BODY)) -> bytes:
    lines = (
        b"POST /v1/refinements HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    )
    return b"%b%b%b\r\n" % (lines, upgrade, length)


LAST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.fixture(params=UPGRADES, ids=["h2c", "websocket"])
def upgrade(request: pytest.FixtureRequest, redis_url: str) -> bytes:
    asked: bytes = request.param
    return asked


def test_a_body_that_comes_with_its_head_is_read(server: str, upgrade: bytes) -> None:
    answers = said(server, head(upgrade) + BODY + LAST)
    assert statuses(answers) == [202, 200]


def test_a_body_that_looks_like_a_request_is_no_request(server: str, upgrade: bytes) -> None:
    smuggled = b"DELETE /v1/refinements/x HTTP/1.1\r\nHost: localhost\r\n\r\n"
    length = b"Content-Length: %d\r\n" % len(smuggled)
    assert statuses(said(server, head(upgrade, length) + smuggled + LAST)) == [422, 200]


@pytest.mark.parametrize("size", [1, 7, 64])
def test_a_request_may_arrive_in_pieces(server: str, upgrade: bytes, size: int) -> None:
    whole = head(upgrade) + BODY + LAST
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    assert statuses(said(server, *pieces)) == [202, 200]


def test_a_chunked_body_is_read(server: str, upgrade: bytes) -> None:
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    whole = head(upgrade, b"Transfer-Encoding: chunked\r\n") + chunked + LAST
    assert statuses(said(server, whole)) == [202, 200]


def test_several_requests_on_one_connection_are_answered(server: str, upgrade: bytes) -> None:
    request = head(upgrade) + BODY
    assert statuses(said(server, request + request + LAST)) == [202, 202, 200]


def test_a_connection_that_is_to_close_closes(server: str, redis_url: str) -> None:
    upgrade = UPGRADES[0].replace(b"Upgrade, ", b"Upgrade, close, ")
    assert statuses(said(server, head(upgrade) + BODY)) == [202]


def statuses(answers: bytes) -> list[int]:
    return [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_submits_when_it_may_use_http_2(server: str, redis_url: str) -> None:
    command = ["curl", "--http2", "--silent", "--max-time", str(TIMEOUT_S), "--json", "@-"]
    url = f"{server}/v1/refinements"
    ran = subprocess.run([*command, url, url], input=BODY, check=True, capture_output=True)
    assert ran.stdout.count(b'"id":"ref_') == 2


@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")
def test_java_submits_with_its_own_client(server: str, redis_url: str) -> None:
    source = str(Path(__file__).with_name("Submit.java"))
    command = ["java", "-Xshare:auto", source, f"{server}/v1/refinements", BODY.decode()]
    ran = subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_S)
    assert ran.stdout.split() == [b"202", b"202"]
