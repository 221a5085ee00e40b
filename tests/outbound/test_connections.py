"""Which connections carry a request, and what comes on them unasked."""

import asyncio
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from tests.outbound.conftest import OpenClient
from tests.outbound.raw_server import RawAnswer, raw_server
from tests.outbound.test_http_client import CHUNKED, DONE, OK, posted, until
from tests.ports import reserved_port
from tests.waiting import TIMEOUT_S
from workers.outbound.transport import (
    KEPT_S,
    ConnectionBroken,
    InvalidResponse,
    NotConnected,
)


def numbered(count: int, again_s: float) -> tuple[list[bytes], list[RawAnswer]]:
    """Bodies that differ, and answers with them that a server sends twice."""
    bodies = [b"%04d" % number for number in range(count)]
    sent = [OK + b"Content-Length: 4\r\n\r\n" + body for body in bodies]
    return bodies, [RawAnswer(answer, again_s=again_s) for answer in sent]


def of_refinement(number: int) -> dict[str, str]:
    return {"Idempotency-Key": f"ref_{number}/iterations/1/draft"}


@pytest.mark.parametrize("again_s", [0.0, 0.002, 0.02, 0.2])
async def test_a_second_response_reaches_no_other_refinement_however_late_it_comes(
    open_client: OpenClient, again_s: float
) -> None:
    bodies, answers = numbered(20, again_s)
    async with raw_server(*answers) as server, open_client() as client:
        read = [
            await posted(client, server.url, headers=of_refinement(number))
            for number in range(len(bodies))
        ]
    assert read == [(200, body) for body in bodies]


async def test_a_second_response_that_came_between_two_calls_reaches_neither(
    open_client: OpenClient,
) -> None:
    bodies, answers = numbered(5, again_s=0.01)
    async with raw_server(*answers) as server, open_client() as client:
        for body in bodies:
            assert await posted(client, server.url, headers=of_refinement(1)) == (200, body)
            await asyncio.sleep(0.1)
        assert server.connections == len(bodies)
        assert len(server.requests) == len(bodies)


def answering_twice(listening: socket.socket, has_answered: threading.Semaphore) -> None:
    """Answer the request of each of two connections twice, the second time a little later."""
    listening.settimeout(TIMEOUT_S)
    for body in (b"0001", b"0002"):
        connection, _ = listening.accept()
        with connection:
            connection.recv(65_536)
            for _ in range(2):
                connection.sendall(OK + b"Content-Length: 4\r\n\r\n" + body)
                time.sleep(AGAIN_S)
            has_answered.release()


AGAIN_S = 0.05


async def test_a_second_response_that_waits_in_the_socket_is_no_response_to_the_next_call(
    open_client: OpenClient,
) -> None:
    has_answered = threading.Semaphore(0)
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor() as threads:
        threads.submit(answering_twice, listening, has_answered)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        async with open_client() as client:
            for body in (b"0001", b"0002"):
                assert await posted(client, url, headers=of_refinement(1)) == (200, body)
                assert has_answered.acquire(timeout=TIMEOUT_S)  # a busy event loop reads nothing


UNFRAMED = OK + b"\r\ndone"


@pytest.mark.parametrize("piece", [1, len(UNFRAMED)])
async def test_a_body_without_a_length_is_whole_if_it_is_closed_and_broken_if_it_is_reset(
    open_client: OpenClient, piece: int
) -> None:
    answers = [RawAnswer(UNFRAMED, "close", piece), RawAnswer(UNFRAMED, "reset", piece)]
    async with raw_server(*answers) as server, open_client() as client:
        assert await posted(client, server.url) == (200, b"done")
        with pytest.raises(ConnectionBroken):
            await posted(client, server.url)


@pytest.mark.parametrize("sent", [DONE, b"HTTP/1.1 204 No Content\r\n\r\n"])
async def test_what_has_arrived_whole_is_whole_if_the_connection_is_reset_then(
    open_client: OpenClient, sent: bytes
) -> None:
    async with raw_server(RawAnswer(sent, "reset")) as server, open_client() as client:
        reply = await client.post(server.url, {}, b"")
        await until(lambda: server.ended == 1)
        await asyncio.sleep(0.05)
        assert await reply.read() == (b"done" if sent == DONE else b"")
        assert (reply.is_whole, await reply.read()) == (True, b"")


async def test_a_refinement_uses_its_connection_again_and_no_other_does(
    open_client: OpenClient,
) -> None:
    async with raw_server(DONE) as server, open_client() as client:
        for number in (1, 2):
            for _ in range(3):
                await posted(client, server.url, headers=of_refinement(number))
        assert server.connections == 2


@pytest.mark.parametrize("behind", [b"HTTP/1.1 2", DONE, DONE[:-1]])
async def test_what_stands_behind_a_response_is_no_part_of_the_next(
    open_client: OpenClient, behind: bytes
) -> None:
    async with raw_server(DONE + behind) as server, open_client() as client:
        for _ in range(3):
            assert await posted(client, server.url) == (200, b"done")


ENDLESS = {
    "chunk extension": CHUNKED + b"4;" + b"x" * 1_000_000,
    "trailer": CHUNKED + b"4\r\ndone\r\n0\r\nX: " + b"x" * 1_000_000,
    "trailers": CHUNKED + b"4\r\ndone\r\n0\r\n" + b"X: x\r\n" * 100_000,
    "early responses": b"HTTP/1.1 103 Early Hints\r\nX: x\r\n\r\n" * 10_000,
    "reason": b"HTTP/1.1 200 " + b"x" * 1_000_000,
}


async def test_framing_without_end_ends_with_the_call(open_client: OpenClient) -> None:
    for sent in ENDLESS.values():
        answer = RawAnswer(sent, "hang", piece=10_000)
        async with raw_server(answer) as server, open_client() as client:
            calling = asyncio.create_task(posted(client, server.url))
            await until(lambda: bool(server.requests))
            with pytest.raises((InvalidResponse, TimeoutError)):
                async with asyncio.timeout(1):
                    await calling
            await until(lambda: server.ended == 1)


FRAMED = {
    "length": b"HTTP/1.1 100 Continue\r\n\r\n" + DONE,
    "chunks": CHUNKED + b"2\r\ndo\r\n2;x\r\nne\r\n0\r\nX: y\r\n\r\n",
}


@pytest.mark.parametrize("sent", FRAMED.values(), ids=FRAMED)
@pytest.mark.parametrize("then", ["stay", "close"])
async def test_a_response_may_be_cut_in_two_anywhere_and_is_broken_if_the_rest_does_not_come(
    open_client: OpenClient, sent: bytes, then: str
) -> None:
    cuts = range(1, len(sent))
    if then == "stay":
        halves = [RawAnswer(sent, piece=at) for at in cuts]
    else:
        halves = [RawAnswer(sent[:at], "close") for at in cuts]
    async with raw_server(*halves) as server, open_client() as client:
        for _ in halves:
            if then == "stay":
                assert await posted(client, server.url) == (200, b"done")
            else:
                with pytest.raises(ConnectionBroken):
                    await posted(client, server.url)
        assert server.connections == (1 if then == "stay" else len(halves))


async def test_idle_connections_are_closed_after_a_while(open_client: OpenClient) -> None:
    async with raw_server(DONE) as server, open_client(kept_s=KEPT_S) as client:
        await asyncio.gather(*[posted(client, server.url) for _ in range(3)])
        await until(lambda: server.ended == server.connections == 3)


async def test_a_closed_client_has_closed_every_connection(open_client: OpenClient) -> None:
    async with raw_server(DONE, RawAnswer(b"", "hang")) as server:
        async with open_client() as client:
            await posted(client, server.url)
            calls = [asyncio.create_task(posted(client, server.url)) for _ in range(2)]
            await until(lambda: len(server.requests) == 3)
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(error) for error in done] == [ConnectionBroken] * 2
        await until(lambda: server.ended == 2)


class ScriptedNames(AbstractResolver):
    """Resolves every name to these ports of this machine, and counts how often."""

    def __init__(self, *ports: int) -> None:
        self.ports = ports
        self.asked = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return local addresses with the ports of the table."""
        self.asked += 1
        await asyncio.sleep(0.01)
        if not self.ports:
            raise socket.gaierror(socket.EAI_NONAME, f"{host} is unknown")
        return [
            ResolveResult(
                hostname=host, host="127.0.0.1", port=number, family=family, proto=0, flags=0
            )
            for number in self.ports
        ]

    async def close(self) -> None:
        """Do nothing."""


def port_of(url: str) -> int:
    return int(url.split(":")[2].split("/", maxsplit=1)[0])


async def test_requests_at_once_share_one_lookup_and_an_address_that_refuses_is_passed_over(
    open_client: OpenClient,
) -> None:
    with reserved_port() as refusing:
        async with raw_server(DONE) as server:
            names = ScriptedNames(refusing, port_of(server.url))
            async with open_client(resolver=names) as client:
                await asyncio.gather(*[posted(client, "http://models.test/") for _ in range(20)])
            assert names.asked == 1
            assert b"\r\nHost: models.test\r\n" in server.requests[0]


async def test_connections_are_spread_over_the_addresses_of_a_name(open_client: OpenClient) -> None:
    async with raw_server(DONE) as one, raw_server(DONE) as other:
        names = ScriptedNames(port_of(one.url), port_of(other.url))
        async with open_client(resolver=names) as client:
            for number in range(20):  # at once, a late connection would be tried at both
                await posted(client, "http://models.test/", headers=of_refinement(number))
        assert (one.connections, other.connections) == (10, 10)


async def test_an_unknown_name_is_not_connected_and_looked_up_again(
    open_client: OpenClient,
) -> None:
    names = ScriptedNames()
    async with open_client(resolver=names) as client:
        for _ in range(2):
            with pytest.raises(NotConnected, match=r"models\.test is unknown"):
                await posted(client, "http://models.test/")
    assert names.asked == 2
