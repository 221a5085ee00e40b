"""What Hone's own client for HTTP promises beyond what every client does."""

import asyncio
import socket
import ssl
from contextlib import aclosing
from dataclasses import replace

import pytest
from aiohappyeyeballs import AddrInfoType

from tests.outbound.raw_server import RawAnswer, raw_server
from tests.outbound.test_http_clients import CHUNKED, DONE, OK, posted, until
from tests.waiting import TIMEOUT_S
from workers.outbound.http1 import (
    REST_S,
    ConnectionBroken,
    Http1Client,
    HttpError,
    InvalidResponse,
    NotConnected,
)


def opened(rest_s: float = 0.0, kept_s: float = 15.0) -> aclosing[Http1Client]:
    return aclosing(Http1Client(connect_s=60.0, rest_s=rest_s, kept_s=kept_s))


@pytest.mark.parametrize("behind", [b"HTTP/1.1 2", b"more"])
async def test_the_beginning_of_another_response_closes_the_connection(behind: bytes) -> None:
    async with raw_server(DONE + behind) as server, opened() as client:
        for _ in range(2):
            assert await posted(client, server.url) == (200, b"done")
        assert server.connections == 2


async def test_what_comes_on_an_idle_connection_closes_it() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(DONE)
        await asyncio.sleep(0.05)
        writer.write(DONE)
        closed.append(await reader.read())
        writer.close()

    closed: list[bytes] = []
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server, opened() as client:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        assert await posted(client, url) == (200, b"done")
        await until(lambda: closed == [b""])


@pytest.mark.parametrize("again_s", [0.0, 0.002, 0.02])
async def test_a_second_response_to_one_request_is_not_taken_for_that_to_the_next(
    again_s: float,
) -> None:
    bodies = [b"%04d" % number for number in range(20)]
    answers = [RawAnswer(OK + b"Content-Length: 4\r\n\r\n" + it) for it in bodies]
    answers = [replace(it, again_s=again_s) for it in answers]
    async with raw_server(*answers) as server, opened(REST_S) as client:
        assert [await posted(client, server.url) for _ in bodies] == [(200, it) for it in bodies]


async def test_the_last_used_of_the_rested_connections_is_used_first() -> None:
    async with raw_server(DONE) as server, opened(0.05) as client:
        for connections in (1, 2):
            assert await posted(client, server.url) == (200, b"done")
            assert server.connections == connections
        await asyncio.sleep(0.1)
        for _ in range(2):
            assert await posted(client, server.url) == (200, b"done")
        assert server.connections == 2


async def test_a_body_that_ends_with_its_connection_must_not_end_with_a_reset() -> None:
    # The head is sent alone, so that the reset does not overtake it.
    answer = RawAnswer(OK + b"\r\n" + b"done" * 1000, "reset", piece=len(OK) + 2)
    async with raw_server(answer) as server, opened() as client:
        with pytest.raises(ConnectionBroken):
            await posted(client, server.url)


ENDLESS = {
    "chunk extension": CHUNKED + b"4;" + b"x" * 1_000_000,
    "trailer": CHUNKED + b"4\r\ndone\r\n0\r\nX: " + b"x" * 1_000_000,
    "trailers": CHUNKED + b"4\r\ndone\r\n0\r\n" + b"X: x\r\n" * 100_000,
    "early responses": b"HTTP/1.1 103 Early Hints\r\nX: x\r\n\r\n" * 10_000,
    "reason": b"HTTP/1.1 200 " + b"x" * 1_000_000,
}


async def test_framing_without_end_is_bounded() -> None:
    seen = {}
    for name, sent in ENDLESS.items():
        answer = RawAnswer(sent, "hang", piece=10_000)
        async with raw_server(answer) as server, opened() as client:
            with pytest.raises(HttpError) as failed:
                await posted(client, server.url)
            seen[name] = failed.type
    assert seen == dict.fromkeys(ENDLESS, InvalidResponse)


async def test_a_transfer_coding_that_was_not_asked_for_and_another_protocol_are_refused() -> None:
    coded = OK + b"Transfer-Encoding: gzip\r\n\r\nx"
    switched = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"
    for sent in (coded, switched):
        async with raw_server(RawAnswer(sent, "hang")) as server, opened() as client:
            with pytest.raises(InvalidResponse):
                await posted(client, server.url)


FRAMED = {
    "length": b"HTTP/1.1 100 Continue\r\n\r\n" + DONE,
    "chunks": CHUNKED + b"2\r\ndo\r\n2;x\r\nne\r\n0\r\nX: y\r\n\r\n",
}


@pytest.mark.parametrize("sent", FRAMED.values(), ids=FRAMED)
@pytest.mark.parametrize("then", ["stay", "close"])
async def test_a_response_may_be_cut_in_two_anywhere_and_is_broken_if_the_rest_does_not_come(
    sent: bytes, then: str
) -> None:
    cuts = range(1, len(sent))
    if then == "stay":
        halves = [RawAnswer(sent, piece=at) for at in cuts]
    else:
        halves = [RawAnswer(sent[:at], "close") for at in cuts]
    async with raw_server(*halves) as server, opened() as client:
        for _ in halves:
            if then == "stay":
                assert await posted(client, server.url) == (200, b"done")
            else:
                with pytest.raises(ConnectionBroken):
                    await posted(client, server.url)
        assert server.connections == (1 if then == "stay" else len(halves))


async def test_what_arrived_before_a_connection_broke_can_be_read() -> None:
    answer = RawAnswer(OK + b"Content-Length: 9\r\n\r\ndone", "close")
    async with raw_server(answer) as server, opened() as client:
        reply = await client.post(server.url, {}, b"{}")
        await until(lambda: server.ended == 1)
        await asyncio.sleep(0.02)
        assert await reply.read() == b"done"
        with pytest.raises(ConnectionBroken):
            await reply.read()
        reply.close()


async def test_idle_connections_are_closed_after_a_while_and_the_last_used_is_used_first() -> None:
    async with raw_server(DONE) as server, opened(kept_s=0.3) as client:
        await asyncio.gather(*[posted(client, server.url) for _ in range(3)])
        async with asyncio.timeout(TIMEOUT_S):
            while server.ended < 2:  # requests in turn need one connection, so others fall idle
                await posted(client, server.url)
                await asyncio.sleep(0.01)
        await until(lambda: server.ended == server.connections)


async def test_a_closed_client_has_closed_every_connection() -> None:
    async with raw_server(DONE, RawAnswer(b"", "hang")) as server:
        async with opened() as client:
            await posted(client, server.url)
            calls = [asyncio.create_task(posted(client, server.url)) for _ in range(2)]
            await until(lambda: len(server.requests) == 3)
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(it) for it in done] == [ConnectionBroken] * 2
        await until(lambda: server.ended == 2)


class ScriptedNames:
    """Looks up names in a table, and counts how often."""

    def __init__(self, *ports: int) -> None:
        self.ports = ports
        self.asked = 0

    async def __call__(self, host: str, _port: int) -> list[AddrInfoType]:
        """Return local addresses with the ports of the table."""
        self.asked += 1
        await asyncio.sleep(0.01)
        if not self.ports:
            raise socket.gaierror(socket.EAI_NONAME, f"{host} is unknown")
        family, kind = socket.AF_INET, socket.SOCK_STREAM
        return [(family, kind, 0, "", ("127.0.0.1", port)) for port in self.ports]


def port_of(url: str) -> int:
    return int(url.split(":")[2].split("/", maxsplit=1)[0])


async def test_requests_at_once_share_one_lookup_and_an_address_that_refuses_is_passed_over() -> (
    None
):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        refusing = gone.getsockname()[1]
    async with raw_server(DONE) as server:
        names = ScriptedNames(refusing, port_of(server.url))
        async with aclosing(Http1Client(60.0, look_up=names)) as client:
            await asyncio.gather(*[posted(client, "http://models.test/") for _ in range(20)])
        assert names.asked == 1
        assert b"\r\nHost: models.test\r\n" in server.requests[0]


async def test_an_address_that_does_not_speak_tls_is_passed_over(
    tls: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    async def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        refused.append(True)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    refused: list[bool] = []
    listening = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with listening as plain, raw_server(DONE, tls=tls[0]) as server:
        names = ScriptedNames(port_of(server.url), plain.sockets[0].getsockname()[1])
        async with aclosing(Http1Client(60.0, tls=tls[1], look_up=names)) as client:
            for _ in range(2):
                assert await posted(client, "https://127.0.0.1/") == (200, b"done")
    assert refused


async def test_connections_are_spread_over_the_addresses_of_a_name() -> None:
    async with raw_server(DONE) as one, raw_server(DONE) as other:
        names = ScriptedNames(port_of(one.url), port_of(other.url))
        async with aclosing(Http1Client(60.0, look_up=names)) as client:
            await asyncio.gather(*[posted(client, "http://models.test/") for _ in range(20)])
        assert (one.connections, other.connections) == (10, 10)


async def test_an_unknown_name_is_not_connected_and_looked_up_again() -> None:
    names = ScriptedNames()
    async with aclosing(Http1Client(60.0, look_up=names)) as client:
        for _ in range(2):
            with pytest.raises(NotConnected, match=r"models\.test is unknown"):
                await posted(client, "http://models.test/")
    assert names.asked == 2
