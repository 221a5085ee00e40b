"""The only wiring: what the API process is made of, and how it is run."""

import asyncio
import gc
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI

from app.api import openapi, problems, routes
from app.api.server import ApiServer, BodyLimit, configured
from app.contract.errors import Unavailable
from app.queue import RefinementQueue
from app.service import Admission, ModelRoles, Selection, Service, Shutdown, Watching
from app.service.admission import switched_off
from app.settings import Settings
from app.store import UnusableRedis, open_store, open_wakeups

# Thousands of watchers are many objects that live: see workers/__main__.py.
COLLECT_AFTER = (50_000, 20, 100)

PATIENCE_S = 30.0
AGAIN_S = 0.5

_log = logging.getLogger(__name__)


class Api(FastAPI):
    """FastAPI with the document that says what this API really answers."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, made once."""
        if self.openapi_schema is None:
            self.openapi_schema = openapi.document(self)
        return self.openapi_schema


def create_app(settings: Settings, shutdown: Shutdown | None = None) -> FastAPI:
    """Return the API, which connects when it starts up; closing `shutdown` ends streams and waits.

    Raises ValueError for settings that contradict each other.
    """
    shutdown = shutdown or Shutdown()
    model_roles, off = ModelRoles(settings), switched_off(settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[dict[str, object]]:
        async with (
            open_store(settings, RefinementQueue(settings.queue)) as store,
            open_wakeups(settings) as wakeups,
        ):
            watching = Watching(store, wakeups, shutdown)
            selection = Selection(store, Random())  # noqa: S311 - a draw, not a secret
            service = Service(store, watching, Admission(model_roles, off), selection)
            yield {
                "store": store,
                "watching": watching,
                "service": service,
                "model_roles": model_roles,
            }
            shutdown.close()

    app = Api(lifespan=lifespan, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes)
    problems.install(app)
    for router in (routes.refinements, routes.journal, routes.server, openapi.router):
        app.include_router(router)
    return app


def serve(settings: Settings) -> int:
    """Serve until a signal comes; return 0 then, 1 if it could not start. The log says why.

    Waits half a minute for a Redis that cannot be reached; one that would lose records is refused.
    """
    shutdown = Shutdown()
    try:
        server = ApiServer(configured(create_app(settings, shutdown), settings), shutdown.close)
        asyncio.run(_reachable(settings))
    except (Unavailable, UnusableRedis, ValueError) as error:
        _log.error("cannot start: %s", error)
        return 1
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    server.run()
    return 0


async def _reachable(settings: Settings) -> None:
    if not settings.redis_url:
        raise ValueError("HONE_REDIS_URL is empty; `hone serve` would start a Redis of its own")
    give_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            async with open_store(settings, RefinementQueue(settings.queue)):
                return
        except Unavailable as error:
            if time.monotonic() > give_up:
                raise
            where = urlsplit(settings.redis_url)
            _log.warning("waiting for Redis at %s: %s", where.hostname or where.path, error)
        await asyncio.sleep(AGAIN_S)
