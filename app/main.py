"""The composition root of the API process: builds the application and runs it."""

import asyncio
import gc
import logging
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import EntryPoint
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import APIRouter, FastAPI
from starlette.routing import Match, Route

from app import console
from app.access.callers import Directory, Metering
from app.access.keyring import Keyring
from app.access.tenants import Tenants
from app.api import (
    administration,
    batches,
    openapi,
    pages,
    presets,
    problems,
    routes,
    statistics,
    webhooks,
)
from app.api.middleware import MEMBERS, AccessControl, Boundary, InCell, Observed
from app.api.server import ApiServer, configured
from app.contract.errors import HoneError, Unavailable
from app.contract.plugins import PluginFailed, blaming, installed, load_entry
from app.openai import routes as openai_routes
from app.queue import RefinementQueue
from app.service.admission import Admission, ModelRoles, Selection, switched_off
from app.service.batches import Batches
from app.service.service import Service, Spread
from app.service.watching import Shutdown, Watching
from app.settings import COLLECT_AFTER, Settings
from app.store import ArchiveAway, Store, UnusableRedis, open_cells, open_wakeups
from app.store.cells import Cells
from app.store.live_texts import LiveTexts
from app.store.redis.connection import place_of
from app.telemetry import NO_TRACES, Traces, metrics, open_traces

if TYPE_CHECKING:
    from app.access.openid import OpenIdProvider

REDIS_WAIT_S = 30.0
RETRY_S = 0.5
LOOK_AROUND_S = 10.0

ROUTERS = (
    routes.refinements,
    routes.journal,
    routes.server,
    presets.presets,
    statistics.statistics,
    statistics.pairs,
    batches.batches,
    webhooks.deliveries,
    webhooks.endpoints,
    administration.keys,
    administration.tokens,
    administration.tenants,
    administration.audit,
    administration.monitoring,
    openai_routes.openai,
    pages.router,
    console.sessions,
    console.router,
)
"""Their routes are added one by one: FastAPI searches an included router twice for a request."""

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Api(FastAPI):
    """FastAPI whose OpenAPI document lists the responses that this API really sends."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document; it is generated once."""
        if self.openapi_schema is None:
            self.openapi_schema = openapi.document(self)
        return self.openapi_schema


def _openid(settings: Settings) -> "OpenIdProvider | None":
    """Return the provider at which people sign in, if there is one. Raises ValueError."""
    if not settings.oidc_issuer:
        return None
    if not (settings.oidc_client_id and settings.oidc_groups):
        raise ValueError("HONE_OIDC_ISSUER requires HONE_OIDC_CLIENT_ID and HONE_OIDC_GROUPS")
    try:
        from app.access.openid import OpenIdProvider  # noqa: PLC0415 - in an extra
    except ModuleNotFoundError as missing:
        raise ValueError("the extra `oidc` is missing: pip install 'pyjwt>=2.15'") from missing
    return OpenIdProvider(settings)


def _members(
    store: Store, watching: Watching, admission: Admission, directory: Directory
) -> dict[str, Any]:
    """Return what requests in one cell share."""
    selection = Selection(store, Random())  # noqa: S311 - a draw, not a secret
    asked = (directory.quotas_of, directory.not_reviewing)
    service = Service(store, watching, admission, selection, *asked)
    batches = Batches(service, store)
    return {"store": store, "watching": watching, "service": service, "batches": batches}


@asynccontextmanager
async def _shared(
    settings: Settings, shutdown: Shutdown, admission: Admission
) -> AsyncIterator[dict[str, Any]]:
    """Connect to Redis, and yield what the server shares with its requests."""
    async with (
        open_cells(settings, RefinementQueue(settings.queue)) as cells,
        AsyncExitStack() as wakeups,
        Directory(cells.access, settings) as directory,
        Metering(cells.access) as metering,
    ):
        members = []
        for number, store in enumerate(cells.stores):
            texts = LiveTexts()
            opening = open_wakeups(settings.in_cell(number), texts.receive)
            changes = await wakeups.enter_async_context(opening)
            watching = Watching(store, changes, shutdown, texts=texts)
            members.append(_members(store, watching, admission, directory))
        running = metrics.measure_lag(), _look_around(cells)
        beside = [asyncio.create_task(coroutine) for coroutine in running]
        of_all: dict[str, Any] = {}
        if not cells.is_one:
            spread = Spread(cells, [member["service"] for member in members])
            of_all = {"service": spread, MEMBERS: members}
        yield {
            **members[0],
            **of_all,
            "cells": cells,
            "readers": Counter(),
            "settings": settings,
            "directory": directory,
            "metering": metering,
            "tenants": Tenants(cells.access),
            "keyring": Keyring(cells.access, settings),
        }
        shutdown.close()
        for task in beside:
            task.cancel()
        await asyncio.wait(beside)


def create_app(
    settings: Settings, shutdown: Shutdown | None = None, traces: Traces = NO_TRACES
) -> FastAPI:
    """Return the API, which connects to Redis at startup. Closing `shutdown` ends all watching.

    Raises ValueError for settings that contradict each other, and `PluginFailed`.
    """
    shutdown = shutdown or Shutdown()
    model_roles, off, openid = ModelRoles(settings), switched_off(settings), _openid(settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        admission = Admission(model_roles, off, settings.longest_retention_s)
        async with _shared(settings, shutdown, admission) as shared:
            yield {**shared, "model_roles": model_roles, "openid": openid}

    app = Api(
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        servers=[{"url": settings.root_path or "/"}],
        telemetry={"tracing": False, "metrics": False, "logs": False},  # `Observed` has its own
    )
    if settings.cells > 1:
        app.add_middleware(InCell)
    app.add_middleware(AccessControl)
    app.add_middleware(Boundary, settings=settings)
    app.add_middleware(Observed, traces=traces)
    problems.install(app)
    app.router.routes.extend(route for router in ROUTERS for route in router.routes)
    for entry in installed("hone.routes"):
        _include(app, entry)
    return app


def _include(app: FastAPI, entry: EntryPoint) -> None:
    """Add the routes of an installed package. Raises `PluginFailed`, also for one that is taken."""
    router = load_entry(entry, APIRouter)
    with blaming(entry):
        for route in (one for one in router.routes if isinstance(one, Route)):
            for method in route.methods or ():
                scope = {"type": "http", "method": method, "path": route.path}
                if any(one.matches(scope)[0] is Match.FULL for one in app.router.routes):
                    raise ValueError(
                        f"{method} {route.path} is answered already: name another path"
                    )
    app.include_router(router)


def serve_api(settings: Settings) -> int:
    """Serve until a signal arrives and return 0; log the error and return 1 if startup fails.

    Waits up to 30 seconds for an unreachable Redis; rejects a Redis that would lose records.
    """
    with open_traces("api") as traces:
        return _serve(settings, traces)


def _serve(settings: Settings, traces: Traces) -> int:
    shutdown = Shutdown()
    try:
        app = create_app(settings, shutdown, traces)
        server = ApiServer(configured(app, settings), shutdown.close)
        asyncio.run(_reachable(settings))
    except (PluginFailed, Unavailable, UnusableRedis, ArchiveAway, ValueError) as error:
        _log.error("cannot start: %s", _with_cause(error))
        return 1
    metrics.STREAMS.set_function(lambda: shutdown.open_waits)
    metrics.serve_metrics(*settings.metrics_at())
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    try:
        server.run()
    except SystemExit as ended:  # so uvicorn ends where it cannot listen
        _log.error("cannot start: %s", ended.__context__ or "see above")
        return 1
    return 0


async def _look_around(cells: Cells) -> None:
    """Measure what stands in Redis, until cancelled."""
    while True:
        await measure_standing(cells)
        await asyncio.sleep(LOOK_AROUND_S)


async def measure_standing(cells: Cells) -> None:
    """Measure what stands in Redis: the sums of all cells, the fullest memory, and who answers.

    Figures that cannot be read vanish: alerts would go by those of before an outage.
    """
    found = await _asked(cells, lambda store: store.administration.standing())
    if not found:
        metrics.STANDING.clear()
    for what in next(iter(found.values()), ()):
        metrics.STANDING.labels(what).set(sum(counts[what] for counts in found.values()))
    used = await _asked(cells, lambda store: store.administration.used_memory()) if found else {}
    metrics.MEMORY.set(max(used.values(), default=math.nan))
    refusals = await _asked(cells, lambda store: store.administration.refusal())
    for number in range(len(cells.stores)):
        metrics.REDIS_UP.labels(number).set(refusals.get(number) == "")


async def _asked(cells: Cells, ask: Callable[[Store], Awaitable[T]]) -> dict[int, T]:
    try:
        return dict(await cells.ask(ask))
    except HoneError:
        return {}


async def _reachable(settings: Settings) -> None:
    if not settings.redis_url:
        raise ValueError("HONE_REDIS_URL is not set; set it, or run `hone serve` without it")
    deadline = time.monotonic() + REDIS_WAIT_S
    while True:
        try:
            async with open_cells(settings, RefinementQueue(settings.queue)):
                return
        except Unavailable as error:
            if time.monotonic() > deadline:
                raise
            where = place_of(settings.redis_url)
            _log.warning("waiting for %s: %s: %s", where, error, error.__cause__ or "")
        await asyncio.sleep(RETRY_S)


def _with_cause(error: Exception) -> str:
    return f"{error}: {error.__cause__}" if str(error.__cause__ or "") else str(error)
