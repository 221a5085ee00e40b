"""Both clients for HTTP, on both event loops."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import uvloop

from tests.store.test_redis_urls import certificate
from workers.outbound.aiohttp_client import AiohttpClient
from workers.outbound.http1 import Http1Client, HttpClient

OpenClient = Callable[..., AbstractAsyncContextManager[HttpClient]]
"""Opens a client; `connect_s` and `tls` may be given."""


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@asynccontextmanager
async def http1(
    connect_s: float = 60.0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[HttpClient]:
    async with aclosing(Http1Client(connect_s, tls=tls, rest_s=0.0)) as client:
        yield client


@asynccontextmanager
async def on_aiohttp(
    connect_s: float = 60.0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[HttpClient]:
    connector = aiohttp.TCPConnector(limit=0, ssl=tls or True)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
        yield AiohttpClient(session, connect_s)


@pytest.fixture(params=[http1, on_aiohttp])
def open_client(request: pytest.FixtureRequest) -> OpenClient:
    opened: OpenClient = request.param
    return opened


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Contexts of a server, and of a client that trusts it."""
    path = certificate(Path(tmp_path_factory.mktemp("tls")), "server", "IP:127.0.0.1")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(path)
    return server, ssl.create_default_context(cafile=path)
