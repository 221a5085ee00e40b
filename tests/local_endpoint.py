"""An endpoint on this machine, and a client that may call it."""

import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.test_utils import TestServer

from app.store.signing_secrets import EndpointSigning
from workers.outbound.guarded_client import GuardedClient, open_endpoints

THIS_MACHINE = "127.0.0.1"
"""For `HONE_OUTBOUND_ALLOW`."""

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


async def signing_of(_tenant: str, _url: str) -> EndpointSigning:
    """Sign every call with `SECRET`, by the clock of this machine."""
    return EndpointSigning((SECRET,), time.time())


EndpointAnswer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FixedResolver(AbstractResolver):
    """Resolves every name to one address."""

    def __init__(self, address: str) -> None:
        self.address = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the address."""
        return [
            ResolveResult(
                hostname=host, host=self.address, port=port, family=family, proto=0, flags=0
            )
        ]

    async def close(self) -> None:
        """Do nothing."""


@asynccontextmanager
async def endpoint(
    answer: EndpointAnswer,
) -> AsyncIterator[tuple[str, list[web.Request], GuardedClient]]:
    """A server on this machine, what it was asked, and a client that may call it."""
    asked: list[web.Request] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        await request.read()
        asked.append(request)
        return await answer(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    server = TestServer(app)
    async with server, open_endpoints(signing_of, allowed=THIS_MACHINE) as endpoints:
        yield str(server.make_url("/check")), asked, endpoints


def answering_with(body: Any, status: int = 200) -> EndpointAnswer:
    async def answer(_request: web.Request) -> web.StreamResponse:
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(text=text, status=status, headers={"Location": "/elsewhere"})

    return answer
