"""Quarantine: suspects are played in child processes, so that one that kills its process is found.

A suspect is a refinement whose last claim ended without a journaled step, as if it had killed its
worker. Several share a child. When a child dies, its unfinished suspects are split into halves,
each in a child of its own, until one is alone. A suspect that journals a step is cleared: the child
hands it back, and any worker goes on with it.

Parent and child exchange lines. The parent sends `play JOB_ID REFINEMENT_ID` and `leave`, and
closes the pipe to end the child. The child sends `alive` while its event loop turns, and
`ended REFINEMENT_ID`.
"""

import asyncio
import logging
import os
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol, Self

from redis.exceptions import RedisError

from app.store import RENEWALS_PER_LEASE, WorkerStore

log = logging.getLogger(__name__)

CANNOT_RUN = os.EX_UNAVAILABLE
"""Exit status of a child that cannot run, such as without Redis: no evidence against a suspect."""

STARTS_WITHIN_S = 60.0
LONGEST_TICK_S = 1.0
TICKS_PER_STALL = 5

KILLED_TOGETHER_S = 0.5
"""A signal to a worker and its children kills the worker within this time, before it blames."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0  # between starts of children that cannot run
RETRY_S = 1.0
OOM_SCORE = "500"  # the kernel prefers a child when memory runs out


class Pipe(Protocol):
    """Where the parent writes."""

    def write(self, data: bytes, /) -> None: ...
    def is_closing(self) -> bool: ...
    def close(self) -> None: ...


class Process(Protocol):
    """A child process: forked, or `asyncio.subprocess.Process`."""

    @property
    def stdin(self) -> Pipe | None: ...
    @property
    def stdout(self) -> asyncio.StreamReader | None: ...
    async def wait(self) -> int: ...
    def kill(self) -> None: ...


Start = Callable[[str], Awaitable[Process]]
"""Starts a child process of that name."""


@dataclass(frozen=True, eq=False)
class Suspect:
    """A refinement in quarantine; `is_done` is set once it needs no child any more."""

    job_id: str
    refinement_id: str
    is_done: asyncio.Event = field(default_factory=asyncio.Event)


class SuspectProcess:
    """A child process and the unfinished suspects in it; others may join while it `is_open`."""

    def __init__(self, name: str, suspects: Collection[Suspect], *, is_open: bool) -> None:
        self.name = name
        self.is_open = is_open
        self.is_ready = False
        self.is_shared = len(suspects) > 1  # now or before
        self.suspects = {suspect.refinement_id: suspect for suspect in suspects}
        self._process: Process | None = None
        self._silent_s = 0.0
        self._is_closed = False
        self._is_leaving = False

    def play(self, suspect: Suspect) -> None:
        """Let the child play one more suspect."""
        self.suspects[suspect.refinement_id] = suspect
        self.is_shared |= len(self.suspects) > 1
        self._send(f"play {suspect.job_id} {suspect.refinement_id}")

    def leave(self) -> None:
        """Let calls in flight finish, then have everything handed back."""
        self._is_leaving = True
        self._send("leave")

    def close(self) -> None:
        """Have everything handed back at once, and end the child."""
        self.is_open, self._is_closed = False, True
        if self._process and self._process.stdin:
            self._process.stdin.close()

    async def run(self, start: Start, stall_s: float) -> str | None:
        """Run the process to its end; return how it died, or None if it ended on request.

        A child whose event loop stands still for `stall_s` seconds is killed. Cancelled, it kills
        the child and waits for it.
        """
        self._process = process = await start(self.name)
        for suspect in self.suspects.values():
            self.play(suspect)
        if self._is_leaving:
            self.leave()
        if self._is_closed:
            self.close()
        listening = asyncio.create_task(self._listen(process))
        guarding = asyncio.create_task(self._guard(process, stall_s))
        try:
            status = await process.wait()
            await asyncio.wait({listening}, timeout=RETRY_S)  # for what it said last
        finally:
            self.is_open = False
            listening.cancel()
            guarding.cancel()
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if self._silent_s > stall_s:
            return f"its event loop stood still for {stall_s:g} s"
        return None if self._is_closed else _how(status)

    async def _listen(self, process: Process) -> None:
        assert process.stdout
        async for line in process.stdout:
            if not self._is_closed:  # from then on it has `stall_s` seconds to end
                self._silent_s = 0.0
            self.is_ready = True
            report, _, refinement_id = line.decode(errors="replace").strip().partition(" ")
            if report == "ended" and (suspect := self.suspects.pop(refinement_id, None)):
                suspect.is_done.set()
            if not self.suspects:
                self.close()

    async def _guard(self, process: Process, stall_s: float) -> None:
        tick_s = _tick_s(stall_s)
        while self._silent_s <= (stall_s if self.is_ready else STARTS_WITHIN_S):
            await asyncio.sleep(tick_s)
            # Ticks, not the clock: a suspended machine or a busy parent is no silence of the child.
            self._silent_s += tick_s
        with suppress(ProcessLookupError):
            process.kill()

    def _send(self, line: str) -> None:
        pipe = self._process.stdin if self._process else None
        if pipe and not pipe.is_closing():
            with suppress(OSError, RuntimeError):  # it has died: `run` finds out
                pipe.write(f"{line}\n".encode())


def _tick_s(stall_s: float) -> float:
    return min(LONGEST_TICK_S, stall_s / TICKS_PER_STALL)


def _how(status: int) -> str | None:
    if status == CANNOT_RUN:
        return None
    if status >= 0:
        return f"it ended by itself with exit status {status}"
    try:
        return f"it was killed by signal {-status} ({signal.Signals(-status).name})"
    except ValueError:
        return f"it was killed by signal {-status}"


class Quarantine:
    """The suspects of one worker, in at most `children` child processes.

    Only a suspect that was alone in a child that died, while this process lived on, is blamed
    (`WorkerStore.blame`). At the end of the context every child is killed.
    """

    def __init__(
        self,
        store: WorkerStore,
        start: Start,
        name: str,
        *,
        children: int,
        lease_s: float,
        stall_s: float,
    ) -> None:
        self._store = store
        self._start = start
        self._name = name
        self._most = children
        self._lease_s = lease_s
        self._stall_s = stall_s
        self._suspects: dict[str, Suspect] = {}
        self._children: dict[SuspectProcess, asyncio.Task[None]] = {}
        self._newcomers: list[Suspect] = []
        self._groups: deque[list[Suspect]] = deque()  # suspects of dead children; nobody joins them
        self._started = 0
        self._failures = 0
        self._is_leaving = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [*self._children.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for suspect in self._suspects.values():
            suspect.is_done.set()

    async def refine(self, job_id: str, refinement_id: str) -> None:
        """Play a suspect until it ends, is cleared or handed back, or another worker has it.

        Does nothing for one that is here already. Cancelled, it has every suspect handed back.
        """
        if self._is_leaving or refinement_id in self._suspects:
            return
        suspect = self._suspects[refinement_id] = Suspect(job_id, refinement_id)
        self._admit(suspect)
        try:
            await suspect.is_done.wait()
        except asyncio.CancelledError:
            self._close()
            await suspect.is_done.wait()
            raise
        finally:
            del self._suspects[refinement_id]

    def leave(self) -> None:
        """Start no more calls; calls in flight may finish."""
        self._is_leaving = True
        for suspect in [
            *self._newcomers,
            *(member for group in self._groups for member in group),
        ]:
            suspect.is_done.set()  # no worker holds it
        self._newcomers.clear()
        self._groups.clear()
        for child in self._children:
            child.leave()

    def _close(self) -> None:
        self.leave()
        for child in self._children:
            child.close()

    def _admit(self, suspect: Suspect) -> None:
        for child in self._children:
            if child.is_open:
                child.play(suspect)
                return
        self._newcomers.append(suspect)
        self._fill()

    def _fill(self) -> None:
        while len(self._children) < self._most and (self._groups or self._newcomers):
            is_open = not self._groups
            if is_open:
                group, self._newcomers = self._newcomers, []
            else:
                group = self._groups.popleft()
            self._started += 1
            child = SuspectProcess(
                f"{self._name}-quarantine-{self._started}", group, is_open=is_open
            )
            self._children[child] = asyncio.create_task(self._keep(child))

    async def _keep(self, child: SuspectProcess) -> None:
        """Run a child to its end, and see to the suspects that it left."""
        log.info("%s: playing %d suspects", child.name, len(child.suspects))
        renewing = asyncio.create_task(self._renew(child))
        try:
            how = await child.run(self._start, self._stall_s)
            if child.suspects:
                await self._died(child, [*child.suspects.values()], how)
        except Exception:
            log.exception("%s: failed; its suspects are due again after a lease", child.name)
            for suspect in child.suspects.values():
                suspect.is_done.set()
        finally:
            renewing.cancel()
            del self._children[child]
        self._fill()

    async def _died(self, child: SuspectProcess, left: list[Suspect], how: str | None) -> None:
        is_evidence = how is not None and child.is_ready and not self._is_leaving
        log.warning("%s: ended with %d suspects: %s", child.name, len(left), how or "cannot run")
        await asyncio.sleep(KILLED_TOGETHER_S)
        detail = None
        if is_evidence and not child.is_shared:
            detail = f"it was alone in a child process of a worker, which died: {how}"
        ended = await asyncio.gather(
            *(self._store.blame(suspect.refinement_id, child.name, detail) for suspect in left)
        )
        for suspect, has_ended in zip(left, ended, strict=True):
            if has_ended or self._is_leaving:
                suspect.is_done.set()
        group = [suspect for suspect in left if not suspect.is_done.is_set()]
        if is_evidence:
            self._failures = 0
            middle = (len(group) + 1) // 2
            self._groups.extend(half for half in (group[:middle], group[middle:]) if half)
        elif group:
            await self._pause()
            self._groups.append(group)

    async def _renew(self, child: SuspectProcess) -> None:
        """Keep the lease of a child that may hold up the thread that renews it."""
        while True:
            await asyncio.sleep(self._lease_s / RENEWALS_PER_LEASE)
            if child.is_ready:
                try:
                    await self._store.renew(name=child.name)
                except RedisError as error:
                    log.warning("%s: cannot renew the lease: %s", child.name, error)

    async def _pause(self) -> None:
        self._failures += 1
        await asyncio.sleep(min(FIRST_PAUSE_S * 2.0 ** min(self._failures, 30), LONGEST_PAUSE_S))


class Parent:
    """What a child receives from its parent and sends to it.

    The parent kills a child that sends nothing for `stall_s` seconds.
    """

    def __init__(self, incoming: IO[bytes], outgoing: int, stall_s: float) -> None:
        self._in = incoming
        self._out = outgoing
        self._tick_s = _tick_s(stall_s)

    async def serve(
        self, refine: Callable[[str, str], Awaitable[None]], leave: Callable[[], None]
    ) -> None:
        """Play suspects as the parent asks, until it closes the pipe; then cancel what is left."""
        tasks: set[asyncio.Task[None]] = set()
        alive = asyncio.create_task(self._alive())
        try:
            async for line in await _lines(self._in):
                match line.decode().split():
                    case ["play", job_id, refinement_id]:
                        playing = self._play(refine, job_id, refinement_id)
                        tasks.add(asyncio.create_task(playing))
                    case ["leave"]:
                        leave()
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            alive.cancel()

    async def _play(
        self, refine: Callable[[str, str], Awaitable[None]], job_id: str, refinement_id: str
    ) -> None:
        try:
            await refine(job_id, refinement_id)
        except Exception:
            log.exception("job %s failed", job_id)
        finally:
            self._send(f"ended {refinement_id}")

    async def _alive(self) -> None:
        while True:
            self._send("alive")
            await asyncio.sleep(self._tick_s)

    def _send(self, line: str) -> None:
        with suppress(OSError):  # the parent has gone
            os.write(self._out, f"{line}\n".encode())


async def _lines(pipe: IO[bytes]) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


def prefer_in_oom() -> None:
    """Let the kernel kill this process rather than its parent when memory runs out."""
    with suppress(OSError):  # Linux only
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
