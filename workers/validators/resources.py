"""What a request may need of the server beyond a process: a sandbox, a way to endpoints."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp.connector import SocketFactoryType

from app.settings import Settings
from workers.outbound.guarded_client import EndpointClient, open_endpoints, public_socket
from workers.validators.sandbox import Sandbox, open_sandbox


@dataclass(frozen=True, slots=True)
class ServerResources:
    """What this worker has; a validator that needs what is not there cannot be run."""

    sandbox: Sandbox | None = None
    endpoints: EndpointClient | None = None


NO_RESOURCES = ServerResources()


@asynccontextmanager
async def open_server_resources(
    settings: Settings, socket_factory: SocketFactoryType = public_socket
) -> AsyncIterator[ServerResources]:
    """Keep open what the settings allow. Raises `RunsAsRoot`.

    Sockets to endpoints come from `socket_factory`.
    """
    sandbox = open_sandbox(allowed=settings.python_tests)
    key = settings.secret_key.get_secret_value() if settings.secret_key else ""
    if not key:
        yield ServerResources(sandbox)
        return
    async with open_endpoints(key, socket_factory=socket_factory) as endpoints:
        yield ServerResources(sandbox, endpoints)
