"""The client for HTTP, on both event loops."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import uvloop
from aiohttp.abc import AbstractResolver

from tests.store.test_redis_urls import certificate
from tests.waiting import TIMEOUT_S
from workers.outbound.transport import (
    AiohttpClient,
    HttpClient,
    ProxyOf,
    no_proxy,
    open_session,
)

OpenClient = Callable[..., AbstractAsyncContextManager[HttpClient]]
"""Opens a client; `connect_s`, `tls`, `resolver`, `proxy_of` and `kept_s` may be given."""


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@asynccontextmanager
async def opened(
    connect_s: float = 60.0,
    tls: ssl.SSLContext | None = None,
    resolver: AbstractResolver | None = None,
    proxy_of: ProxyOf = no_proxy,
    kept_s: float = TIMEOUT_S,
) -> AsyncIterator[HttpClient]:
    async with open_session(kept_s=kept_s, tls=tls, resolver=resolver) as session:
        yield AiohttpClient(session, connect_s, proxy_of)


@pytest.fixture
def open_client() -> OpenClient:
    return opened


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Contexts of a server, and of a client that trusts it."""
    path = certificate(Path(tmp_path_factory.mktemp("tls")), "server", "IP:127.0.0.1")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(path)
    return server, ssl.create_default_context(cafile=path)
