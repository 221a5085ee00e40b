"""The worker process: `python -m workers`, also as `hone worker`."""

import asyncio
import gc
import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial

import uvloop
from pydantic import ValidationError
from redis.exceptions import ConnectionError as RedisUnreachable
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimedOut

from app.queue import JOB, RefinementQueue
from app.settings import Settings
from app.store import UnusableRedis, WorkerStore, open_renewal, open_worker_store
from workers.engine.pipeline import load_strategies
from workers.model_registry import ModelRegistry, open_models
from workers.play.lease import Lease
from workers.play.refinements import (
    Refinements,
    announce,
    drop_strays,
    heed_commands,
    keep_running,
    recover,
)
from workers.rq.worker import CoroutineWorker, end
from workers.validators import RunsAsRoot, ServerResources, open_server_resources

log = logging.getLogger(__name__)

# Hundreds of refinements in flight keep many objects alive. Scanning them as often as Python does
# by default takes a quarter of a busy worker's time, and few of them form cycles.
COLLECT_AFTER = (50_000, 20, 100)

Opening = AbstractAsyncContextManager[ServerResources]

CONNECT_TIMEOUT_S = 30.0
RETRY_EVERY_S = 0.5


def main(open_server_resources: Callable[[Settings], Opening] = open_server_resources) -> int:
    """Run until a signal arrives; return 0, or 1 if the worker cannot start. The log says why."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    try:
        settings = Settings()
        load_strategies()
        gc.freeze()
        gc.set_threshold(*COLLECT_AFTER)
        uvloop.run(_start(settings, open_server_resources))
    except (UnusableRedis, RedisError, RunsAsRoot, ValidationError) as error:
        log.error("cannot start: %s", error)  # noqa: TRY400 - no traceback
        return 1
    return 0


async def work(
    settings: Settings,
    store: WorkerStore,
    models: ModelRegistry,
    resources: ServerResources,
    name: str,
) -> None:
    """Play refinements from the queue until a signal stops the worker."""
    refinements = Refinements(store, models, nonce=name, resources=resources)
    lease = Lease(
        partial(open_renewal, settings, name),
        settings.lease_s,
        settings.stall_s,
        refinements.look,
    )
    worker = CoroutineWorker(
        settings.queue,
        settings.redis_url,
        {JOB: refinements.refine},
        concurrency=settings.concurrency,
        grace_s=settings.grace_s,
        leave=refinements.leave,
        is_lagging=lambda: lease.is_lagging,
        name=name,
    )
    async with lease.kept(), asyncio.TaskGroup() as around:
        tasks = [
            around.create_task(keep_running(each))
            for each in (
                partial(announce, refinements, settings.lease_s),
                partial(recover, store, worker.is_idle),
                partial(drop_strays, store, refinements.refining),
                partial(heed_commands, store, refinements),
            )
        ]
        log.info("%s runs up to %d refinements at once", name, settings.concurrency)
        await worker.serve()
        await end(tasks)
    with suppress(RedisError):
        await store.leave()


async def _start(settings: Settings, open_server_resources: Callable[[Settings], Opening]) -> None:
    """Connect and work; retry for `CONNECT_TIMEOUT_S` seconds while Redis is unreachable."""
    name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    give_up = asyncio.get_running_loop().time() + CONNECT_TIMEOUT_S
    while True:
        try:
            async with (
                open_server_resources(settings) as resources,
                open_worker_store(settings, RefinementQueue(settings.queue), name) as store,
                open_models(settings) as models,
            ):
                await work(settings, store, models, resources, name)
                return
        except (RedisUnreachable, RedisTimedOut):
            if asyncio.get_running_loop().time() > give_up:
                raise
        await asyncio.sleep(RETRY_EVERY_S)


if __name__ == "__main__":
    sys.exit(main())
