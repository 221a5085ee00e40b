"""Hostile requests, written by hand: bodies, hosts, URLs of endpoints, and drafts."""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import product

import httpx

from app.contract.status import TERMINAL, Status
from tests.api.hostile_bodies import largest, of_every_field
from tests.editor.test_hostile_drafts import HOSTILE as DRAFTS
from tests.waiting import TIMEOUT_S

READ_AT = {
    "RefinementRequest": "POST /v1/refinements",
    "LimitsChange": "PATCH /v1/refinements/{}",
    "ReviewDecision": "POST /v1/refinements/{}/reviews",
    "RatingRequest": "POST /v1/refinements/{}/ratings",
    "PartialRequest": "POST /v1/refinements/{}/continue",
    "TokenRequest": "POST /v1/refinements/{}/tokens",
    "EndpointRequest": "POST /v1/endpoints",
    "KeyRequest": "POST /v1/keys",
    "Quotas": "PUT /v1/tenants/acme/quotas",
}
"""Where the API reads a body, by its contract."""

AT_ONCE = 30

HOSTS = (
    "evil.example", "localhost.evil.example", "evil.example:80", "127.0.0.1.evil.example",
    "[::ffff:10.0.0.1]", "user@localhost", "localhost/x", "localhost:x", "localhost,evil", "",
    "localhost evil", "\N{LATIN SMALL LETTER L WITH STROKE}ocalhost", "localhost%00", "x" * 400,
)  # fmt: skip

OF_THIS_MACHINE = (
    "127.0.0.1", "localhost", "LOCALHOST.", "2130706433", "0x7f000001", "0177.0.0.1", "127.1",
    "127.0.1", "0", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
    "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "127.0.0.1.", "x.localhost",
    "\N{CIRCLED DIGIT ONE}27.0.0.1", "127\N{IDEOGRAPHIC FULL STOP}0.0.1", "%31%32%37.0.0.1",
)  # fmt: skip
"""Names of loopback, plain and in disguise."""


@dataclass
class AnswerCounts:
    """How hostile requests were answered."""

    statuses: Counter[int] = field(default_factory=Counter)
    slowest: tuple[float, str] = (0.0, "")
    wrong: list[str] = field(default_factory=list)

    def add(self, name: str, response: httpx.Response, *expected: int) -> None:
        """Count an answer, with its time; a status that is not expected is wrong."""
        self.slowest = max(self.slowest, (response.elapsed.total_seconds(), name))
        self.count(name, response, *expected)

    def count(self, name: str, response: httpx.Response, *expected: int) -> None:
        """Count an answer."""
        self.statuses[response.status_code] += 1
        if response.status_code not in expected:
            self.wrong.append(f"{name}: {response.status_code}: {response.text[:200]}")


async def bodies(api: httpx.AsyncClient) -> AnswerCounts:
    """Send a body with many values in one field, for every field of every body."""
    counts, made = AnswerCounts(), await api.post("/v1/refinements", json={"draft": "In order to."})
    for each in of_every_field(values=2_500):
        method, _, path = READ_AT.get(each.contract.__name__, "").partition(" ")
        if path:
            path = path.format(made.json()["id"])
            sent = await api.request(method, path, content=each.body, headers=JSON)
            may_be = (202, 422) if each.place.endswith("/draft") else (422,)  # an object is a draft
            counts.add(f"{method} {path}: {each.place}", sent, *may_be)
    return counts


async def large_bodies(api: httpx.AsyncClient) -> AnswerCounts:
    """Post the largest bodies, many at once; the slowest is `/healthz` meanwhile."""
    counts, room = AnswerCounts(), asyncio.Semaphore(AT_ONCE)

    async def post(place: str, body: bytes) -> None:
        async with room:
            sent = await api.post("/v1/refinements", content=body, headers=JSON)
            counts.count(place, sent, 202, 422, 503)

    async with _watched(api, counts), asyncio.TaskGroup() as group:
        for each in largest():
            group.create_task(post(each.place, each.body))
    return counts


@asynccontextmanager
async def _watched(api: httpx.AsyncClient, counts: AnswerCounts) -> AsyncIterator[None]:
    async def ask() -> None:
        async with httpx.AsyncClient(base_url=api.base_url, timeout=TIMEOUT_S) as other:
            while True:
                counts.add("GET /healthz", await other.get("/healthz"), 200)
                await asyncio.sleep(0.05)

    asking = asyncio.create_task(ask())
    try:
        yield
    finally:
        asking.cancel()
        await asyncio.wait([asking])


async def hosts(api: httpx.AsyncClient) -> AnswerCounts:
    """Ask for other hosts than the server is."""
    counts = AnswerCounts()
    for host in HOSTS:
        for path in ("/healthz", "/v1/refinements"):
            sent = await api.get(path, headers={b"Host": host.encode()})
            counts.add(f"Host: {host[:50]}", sent, 400, 421)
    return counts


async def urls(api: httpx.AsyncClient) -> AnswerCounts:
    """Name this machine as an endpoint; no validator and no webhook may reach it."""
    counts, ids = AnswerCounts(), []
    async with _canary() as (port, reached):
        for scheme, host in product(("http", "https"), OF_THIS_MACHINE):
            url = f"{scheme}://{host}:{port}/x"
            called = {"kind": "http", "url": url, "on_fail": "warn", "timeout_s": 5}
            body = {"draft": "In order to.", "max_iterations": 1, "validators": [called]}
            body |= {"webhook": {"url": url}, "stop": {"max_wait_seconds": 1}}
            sent = await api.post("/v1/refinements", json=body)
            counts.add(url, sent, 202, 422)
            ids += [sent.json()["id"]] if sent.status_code == 202 else []
        for each in ids:
            counts.wrong += await _unless_ended(api, each)
            attempts = await _attempts(api, each)
            counts.wrong += [] if attempts else [f"{each}: no webhook was tried"]
    counts.wrong += [f"a call reached this machine: {it!r}" for it in reached]
    return counts


async def drafts(api: httpx.AsyncClient) -> AnswerCounts:
    """Submit drafts that are costly to edit and to judge."""
    counts, ids = AnswerCounts(), []
    for name, draft in DRAFTS.items():
        sent = await api.post("/v1/refinements", json={"draft": draft, "max_iterations": 2})
        counts.add(name, sent, 202)
        ids.append(sent.json()["id"])
    for each in ids:
        counts.wrong += await _unless_ended(api, each)
    return counts


JSON = {"Content-Type": "application/json"}


@asynccontextmanager
async def _canary() -> AsyncIterator[tuple[int, list[bytes]]]:
    """Listen on loopback, and collect what arrives."""
    reached: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(await reader.read(100))
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0, family=socket.AF_INET)
    async with server:
        yield server.sockets[0].getsockname()[1], reached


async def _unless_ended(api: httpx.AsyncClient, refinement_id: str) -> list[str]:
    """Wait until a refinement has ended; return what is wrong if it does not."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        found = (await api.get(f"/v1/refinements/{refinement_id}")).json()
        if Status(found["status"]) in TERMINAL:
            return []
        if time.monotonic() > deadline:
            return [f"{refinement_id} is still {found['status']}, waiting for {found['waiting']}"]
        await asyncio.sleep(0.1)


async def _attempts(api: httpx.AsyncClient, refinement_id: str) -> int:
    """Return how often its webhook was tried, once it was."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        found = (await api.get(f"/v1/refinements/{refinement_id}/webhooks")).json()["data"]
        if tried := sum(len(it["attempts"]) for it in found):
            return tried
        await asyncio.sleep(0.1)
    return 0


KINDS: Mapping[str, Callable[[httpx.AsyncClient], Awaitable[AnswerCounts]]] = {
    "bodies": bodies,
    "large bodies": large_bodies,
    "hosts": hosts,
    "URLs": urls,
    "drafts": drafts,
}
"""What sends each kind of hostile requests."""
