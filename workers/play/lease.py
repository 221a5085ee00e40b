"""The lease of this worker: renewed by a thread for as long as the event loop turns."""

import asyncio
import logging
import os
import re
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from hashlib import sha256
from pathlib import Path

from redis.exceptions import RedisError

from app.store import RENEWALS_PER_LEASE

log = logging.getLogger(__name__)

AGAIN_S = 0.2
"""After a failure the next renewal comes soon: Redis may be there for a moment only."""

TURN_EVERY_S = 0.25
LAGGING_S = 0.5

Renew = Callable[[Mapping[str, int]], Awaitable[dict[str, int]]]
"""Renews the lease: takes the numbers of the commands already read, returns the unread ones."""

Look = Callable[[str], Awaitable[None]]
"""Applies the commands that were given to a held refinement."""


def _machine() -> str:
    """Return an id shared by exactly the processes that can see each other's process ids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        seen = f"{socket.gethostname()} {boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # not Linux: nothing is known of other processes
        return secrets.token_hex(4)
    return sha256(seen.encode()).hexdigest()[:8]


MACHINE = _machine()
NAME = re.compile(rf"-{MACHINE}-(\d{{1,7}})-")


def machine_name() -> str:
    """Return what the names of all workers on this machine begin with."""
    return f"{socket.gethostname()}-{MACHINE}-"


def new_name() -> str:
    """Return a name for a worker in this process; `is_gone` can read it."""
    return f"{machine_name()}{os.getpid()}-{secrets.token_hex(4)}"


def is_gone(name: str) -> bool:
    """Return whether a worker ran on this machine and its process has ended.

    False where that cannot be known. The children of a worker have its name and end with it.
    """
    if found := NAME.search(name):
        try:
            os.kill(int(found[1]), 0)
        except ProcessLookupError:
            return True
        except OSError:  # it belongs to another user
            return False
    return False


class Lease:
    """Keeps everything that this worker holds.

    A busy event loop may be late by seconds, and must not lose its refinements for that; one that
    stands still must. So a thread with an event loop and a connection of its own renews the lease,
    until the worker's loop has not turned for `stall_s` seconds. After another lease the thread
    calls `end_process`, since nothing else can; a supervisor then starts a worker that works.
    """

    def __init__(
        self,
        open_renewal: Callable[[], AbstractAsyncContextManager[Renew]],
        lease_s: float,
        stall_s: float,
        look: Look,
        end_process: Callable[[], None],
    ) -> None:
        self._open_renewal = open_renewal
        self._lease_s = lease_s
        self._every_s = lease_s / RENEWALS_PER_LEASE
        self._stall_s = stall_s
        self._look = look
        self._end_process = end_process
        self._lag_s = 0.0
        self._turns = 0
        self._read: dict[str, int] = {}
        self._stopping = threading.Event()
        self._looking: set[asyncio.Task[None]] = set()

    @property
    def is_lagging(self) -> bool:
        """Whether the event loop is so late that the worker should take no more work."""
        return self._lag_s > LAGGING_S

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Renew the lease until the context is closed."""
        loop = asyncio.get_running_loop()
        turning = loop.create_task(self._turn())
        thread = threading.Thread(target=asyncio.run, args=[self._keep(loop)], daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            await loop.run_in_executor(None, thread.join)
            turning.cancel()
            await asyncio.wait([turning])

    async def _turn(self) -> None:
        """Show the thread that the event loop turns, and measure how late it is."""
        loop = asyncio.get_running_loop()
        while True:
            self._turns += 1
            due = loop.time() + TURN_EVERY_S
            await asyncio.sleep(TURN_EVERY_S)
            self._lag_s = loop.time() - due

    async def _keep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Renew in the thread; pass the news to the worker's loop."""
        turns, still_s, wait_s = -1, 0.0, self._every_s
        async with self._open_renewal() as renew:
            is_kept = True
            while is_kept:
                # Counted, not read from a clock: a process that was suspended did not stand still.
                still_s = still_s + wait_s if turns == self._turns else 0.0
                turns, wait_s = self._turns, self._every_s
                if still_s <= self._stall_s:
                    if not await self._renewed(renew, loop):
                        wait_s = min(wait_s, AGAIN_S)
                elif still_s > self._stall_s + self._lease_s:
                    self._end_process()
                else:
                    log.error("the event loop has stood still for %g s", still_s)
                is_kept = not await asyncio.to_thread(self._stopping.wait, wait_s)

    async def _renewed(self, renew: Renew, loop: asyncio.AbstractEventLoop) -> bool:
        read, self._read = self._read, {}
        try:
            news = await renew(read)
        except RedisError as error:
            log.warning("cannot renew the lease: %s", error)
        except Exception:
            log.exception("cannot renew the lease")
        else:
            if news:
                loop.call_soon_threadsafe(self._announce, news)
            return True
        return False

    def _announce(self, news: Mapping[str, int]) -> None:
        task = asyncio.get_running_loop().create_task(self._look_at(news))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _look_at(self, news: Mapping[str, int]) -> None:
        for refinement_id, number in news.items():
            try:
                await self._look(refinement_id)
            except RedisError as error:
                log.warning("%s: cannot read a command from Redis: %s", refinement_id, error)
            else:
                self._read[refinement_id] = number
