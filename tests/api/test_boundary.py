"""What the outermost layer lets in, and what it adds to every response."""

import asyncio
import time
from contextlib import ExitStack
from select import select
from typing import Any

import httpx
import pytest
from pydantic import ValidationError
from starlette.types import Message, Receive, Scope, Send

from app.api.middleware import LARGEST_AT_ONCE, Boundary, HostNames
from app.settings import Settings
from app.store import WorkerStore
from tests.api.api_client import REQUEST, ended, problem, submitted
from tests.api.conftest import running
from tests.api.test_connections import connected
from tests.waiting import TIMEOUT_S

PAGE = "https://app.example"
SETTINGS = Settings(cors_origins=PAGE, allowed_hosts="hone.example *.corp.example")


@pytest.mark.parametrize(
    ("listening", "name", "is_known"),
    [
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "LOCALHOST.", True),
        ("127.0.0.1", "hone.localhost", True),
        ("127.0.0.1", "127.9.9.9", True),
        ("127.0.0.1", "::1", True),
        ("127.0.0.1", "evil.example", False),
        ("127.0.0.1", "localhost.evil.example", False),
        ("127.0.0.1", "127.0.0.1.evil.example", False),
        ("127.0.0.1", "0x7f.1", False),
        ("127.0.0.1", "10.0.0.1", False),
        ("127.0.0.1", "hone.example", True),
        ("127.0.0.1", "x.hone.example", False),
        ("127.0.0.1", "a.b.corp.example", True),
        ("127.0.0.1", "corp.example", False),
        ("127.0.0.1", "evilcorp.example", False),
        ("localhost", "10.0.0.1", False),
        ("0.0.0.0", "10.0.0.1", True),
        ("::", "fd00::1", True),
        ("0.0.0.0", "evil.example", False),
        ("0.0.0.0", "localhost", True),
        ("api", "api", True),
        ("api", "other", False),
    ],
)
def test_names_of_the_server_are_known_and_no_others(
    listening: str, name: str, is_known: bool
) -> None:
    names = HostNames(listening, frozenset(SETTINGS.allowed_hosts.split()))
    assert names.has(name) is is_known


def test_a_star_allows_every_name() -> None:
    assert HostNames("127.0.0.1", frozenset({"*"})).has("anything.example")


@pytest.mark.parametrize(
    "values",
    [
        {"allowed_hosts": "https://hone.example"},
        {"allowed_hosts": "hone.example:8080"},
        {"allowed_hosts": "hone.*"},
        {"cors_origins": "app.example"},
        {"cors_origins": "https://app.example/"},
        {"cors_origins": "*"},
        {"root_path": "hone"},
        {"root_path": "/hone/"},
    ],
)
def test_settings_that_mean_nothing_are_refused(values: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Settings(**values)  # type: ignore[arg-type]


async def answered(method: str, headers: list[tuple[str, str]], **settings: Any) -> httpx.Response:
    """Return the response of the boundary to a request with these headers, and the app's path."""
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(f"{scope['method']} {scope['path']}")
        found = [(b"location", b"/v1/x"), (b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": found})
        await send({"type": "http.response.body", "body": b"ok"})

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": "/v1/x",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
    }
    await Boundary(app, SETTINGS.model_copy(update=settings))(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    extensions = {"seen": seen}
    return httpx.Response(
        sent[0]["status"], headers=sent[0]["headers"], content=body, extensions=extensions
    )


HOST = ("Host", "localhost:8080")
OWN = ("Origin", "http://localhost:8080")


@pytest.mark.parametrize(
    ("hosts", "status"),
    [
        ([], 400),
        (["localhost", "localhost"], 400),
        (["localhost:x"], 400),
        (["user@localhost"], 400),
        (["localhost/"], 400),
        ([""], 400),
        (["evil.example"], 421),
        (["evil.example:8080"], 421),
        (["[2001:db8::1]"], 421),
        (["localhost"], 200),
        (["127.0.0.1:8080"], 200),
        (["[::1]:8080"], 200),
        (["HONE.example:443"], 200),
    ],
)
async def test_a_request_must_be_for_a_host_that_this_server_is(
    hosts: list[str], status: int
) -> None:
    response = await answered("GET", [("Host", host) for host in hosts])
    assert response.status_code == status
    if status != 200:
        problem(response, status, {400: "malformed_header", 421: "misdirected"}[status])


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("POST", [], 200),
        ("POST", [OWN], 200),
        ("POST", [OWN, ("Sec-Fetch-Site", "same-origin")], 200),
        ("POST", [OWN, ("Sec-Fetch-Site", "same-site")], 403),
        ("POST", [("Origin", "HTTP://LOCALHOST:8080")], 200),
        ("POST", [("Origin", "https://localhost:8080")], 403),
        ("POST", [("Origin", "http://localhost:8080.evil.example")], 403),
        ("POST", [("Origin", "http://localhost")], 403),
        ("POST", [("Sec-Fetch-Site", "same-site")], 403),
        ("POST", [("Origin", "http://evil.example")], 403),
        ("POST", [("Origin", "http://localhost:3000")], 403),
        ("POST", [("Origin", "null")], 403),
        ("POST", [("Origin", "")], 403),
        ("POST", [("Sec-Fetch-Site", "cross-site")], 403),
        ("POST", [("Sec-Fetch-Site", "none")], 200),
        ("POST", [("Sec-Fetch-Site", "none"), ("Origin", "http://evil.example")], 403),
        ("POST", [("Origin", PAGE), ("Sec-Fetch-Site", "cross-site")], 200),
        ("DELETE", [("Origin", "http://evil.example")], 403),
        ("PATCH", [("Sec-Fetch-Site", "cross-site")], 403),
        ("GET", [("Origin", "http://evil.example"), ("Sec-Fetch-Site", "cross-site")], 200),
    ],
)
async def test_pages_of_other_origins_change_nothing(
    method: str, headers: list[tuple[str, str]], status: int
) -> None:
    response = await answered(method, [HOST, *headers])
    assert response.status_code == status
    if status == 403:
        problem(response, 403, "cross_site")
        assert response.extensions["seen"] == []


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (("X-Forwarded-Proto", "https"), 200),
        (("X-Forwarded-Proto", "https, http"), 200),
        (("X-Forwarded-Proto", "http"), 403),
        (("Forwarded", 'for=192.0.2.1;Proto="https", for=10.0.0.1;proto=http'), 200),
        (("Sec-Fetch-Site", "same-origin"), 200),
        (("Accept", "*/*"), 403),
    ],
)
async def test_the_scheme_of_the_origin_is_the_one_before_a_proxy(
    said: tuple[str, str], status: int
) -> None:
    headers = [("Host", "hone.example"), ("Origin", "https://hone.example"), said]
    assert (await answered("POST", headers)).status_code == status


async def test_only_listed_origins_may_read_answers() -> None:
    listed = await answered("GET", [HOST, ("Origin", PAGE)])
    assert listed.headers["access-control-allow-origin"] == PAGE
    assert "ETag" in listed.headers["access-control-expose-headers"]
    foreign = await answered("GET", [HOST, ("Origin", "https://evil.example")])
    assert "access-control-allow-origin" not in foreign.headers
    assert listed.headers["vary"] == foreign.headers["vary"] == "Origin"


async def test_a_preflight_is_answered_for_listed_origins_only() -> None:
    asked = [HOST, ("Access-Control-Request-Method", "PATCH")]
    listed = await answered("OPTIONS", [*asked, ("Origin", PAGE)])
    assert (listed.status_code, listed.extensions["seen"]) == (204, [])
    assert "PATCH" in listed.headers["access-control-allow-methods"]
    may_send = listed.headers["access-control-allow-headers"].lower()
    assert {"idempotency-key", "x-stainless-retry-count"} <= {*may_send.split(", ")}
    foreign = await answered("OPTIONS", [*asked, ("Origin", "https://evil.example")])
    assert foreign.extensions["seen"] == ["OPTIONS /v1/x"]
    assert "access-control-allow-methods" not in foreign.headers


async def test_every_answer_forbids_to_store_it_to_guess_its_type_and_to_embed_it() -> None:
    for headers in ([HOST], [("Host", "evil.example")], [HOST, ("Content-Length", "999999999")]):
        response = await answered("GET", headers)
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["cross-origin-resource-policy"] == "same-origin"
        assert response.headers["content-security-policy"] == "frame-ancestors 'none'"
    listed = await answered("GET", [HOST, ("Origin", PAGE)])
    assert "cross-origin-resource-policy" not in listed.headers


async def test_behind_a_path_addresses_have_it_whether_or_not_the_proxy_strips_it() -> None:
    response = await answered("GET", [HOST], root_path="/hone")
    assert response.headers["location"] == "/hone/v1/x"
    assert response.extensions["seen"] == ["GET /hone/v1/x"]
    refused = await answered("GET", [("Host", "evil.example")], root_path="/hone")
    assert problem(refused, 421, "misdirected")["type"].startswith("/hone/docs")


async def test_under_a_root_path_everything_works(settings: Settings, redis_url: str) -> None:
    with running(settings.model_copy(update={"root_path": "/hone"})) as url:
        async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
            for prefix in ("", "/hone"):
                response = await client.post(f"{prefix}/v1/refinements", json=REQUEST)
                assert response.status_code == 202
                found = await client.get(response.headers["location"])
                assert found.status_code == 200
                assert response.headers["location"].startswith("/hone/v1/refinements/ref_")
            assert (await client.get("/")).headers["location"] == "/hone/console"
            page = await client.get("/hone/v1/refinements", params={"limit": 1})
            assert page.headers["link"].startswith("</hone/v1/refinements?")
            [server] = (await client.get("/openapi.json")).json()["servers"]
            assert server["url"] == "/hone"
            missing = await client.get("/hone/v1/nothing")
            assert problem(missing, 404, "not_found")["type"].startswith("/hone/docs")


async def test_head_is_answered_wherever_get_is(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    refinement = f"/v1/refinements/{await ended(api, worker)}"
    for path in ("/healthz", "/docs", "/v1/refinements", refinement, f"{refinement}/report"):
        got, head = await api.get(path), await api.head(path)
        assert (head.status_code, head.content) == (got.status_code, b"")
        assert head.headers["content-length"] == got.headers["content-length"]
    assert "HEAD" in (await api.post("/healthz")).headers["allow"]


async def test_head_of_a_stream_ends(api: httpx.AsyncClient) -> None:
    path = f"/v1/refinements/{await submitted(api)}/events"
    head = await asyncio.wait_for(api.head(path), TIMEOUT_S)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"].startswith("text/event-stream")
    assert (await api.get("/healthz")).status_code == 200


async def test_the_root_leads_to_the_docs(api: httpx.AsyncClient) -> None:
    response = await api.get("/", follow_redirects=True)
    assert (response.status_code, response.url.path) == (200, "/console")
    assert "script-src 'self'" in response.headers["content-security-policy"]


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_client_that_sends_too_much_can_read_why(
    api: httpx.AsyncClient, is_chunked: bool
) -> None:
    async def parts() -> Any:
        for _ in range(320):
            yield b"x" * 65_536

    headers = {"Content-Type": "application/json"}
    body = parts() if is_chunked else b"x" * 320 * 65_536
    response = await api.post("/v1/refinements", content=body, headers=headers)
    problem(response, 413, "too_large")
    assert (await api.get("/healthz")).status_code == 200


def test_what_arrives_at_once_is_bounded_for_large_bodies_and_not_for_small_ones(
    server: str, settings: Settings, redis_url: str
) -> None:
    head = b"POST /v1/refinements HTTP/1.1\r\nHost: localhost\r\n"
    head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    body = b'{"draft":"%b"}' % (b"x" * (settings.max_body_bytes - 1_000))
    large, small = head % len(body) + body, head % 11 + b'{"draft":1}'
    with ExitStack() as stack:
        uploads = [stack.enter_context(connected(server)) for _ in range(LARGEST_AT_ONCE + 1)]
        for upload in uploads:
            upload.sendall(large[:-1])
        [refused], _, _ = select(uploads, (), (), TIMEOUT_S)
        assert b"503 " in refused.recv(20)
        assert b"422 " in answered_with(server, small)
        for upload in set(uploads) - {refused}:
            upload.sendall(large[-1:])
            assert b"422 " in upload.recv(20)  # it was read: the draft is too long
        assert b"422 " in answered_with(server, large)


def answered_with(server: str, request: bytes) -> bytes:
    """Return how the answer begins."""
    with connected(server) as connection:
        connection.sendall(request)
        return connection.recv(20)


async def test_the_layer_costs_little() -> None:
    """About 4 microseconds of CPU time a request on a quiet machine."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def nothing(_message: Message | None = None) -> Any:
        return {}

    headers = [(b"host", b"localhost"), (b"accept", b"*/*"), (b"user-agent", b"x")]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": headers}
    boundary = Boundary(app, Settings())
    began = time.process_time()
    for _ in range(1_000):
        await boundary(scope, nothing, nothing)
    assert time.process_time() - began < 0.2


async def test_other_requests_go_between_thousands_of_streams_that_open() -> None:
    opened: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        opened.append(scope["path"])

    async def nothing(_message: Message | None = None) -> Any:
        return {}

    boundary = Boundary(app, Settings())
    about = {"type": "http", "method": "GET", "headers": [(b"host", b"localhost")]}
    paths = [*["/v1/refinements/x/events"] * 3_000, "/healthz"]
    await asyncio.gather(*(boundary({**about, "path": it}, nothing, nothing) for it in paths))
    assert len(opened) == 3_001
    assert opened.index("/healthz") < 100
