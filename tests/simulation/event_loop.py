"""An event loop whose time is simulated and whose order of callbacks follows from a seed."""

import asyncio
import heapq
import warnings
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any

MOST_CALLBACKS = 500_000  # in one run; more is a loop that never waits


class SimulatedProcess:
    """A process with an event loop of its own: its callbacks run in order while it lives.

    A killed process runs nothing more; what it has sent still arrives. A stalled one runs nothing
    until it continues, and then everything that was due meanwhile.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.is_stalled = False
        self.dies_after: int | None = None  # callbacks until it is killed
        self.ready: deque[asyncio.Handle] = deque()

    def __str__(self) -> str:
        return self.name


OUTSIDE = SimulatedProcess("simulation")
_process: ContextVar[SimulatedProcess] = ContextVar("process", default=OUTSIDE)


class SimulationStuck(Exception):
    """Nothing is left to run, or a callback repeats for ever."""


class SimulatedLoop(asyncio.AbstractEventLoop):
    """Runs the callbacks of several processes, one at a time, in an order chosen by the seed.

    Callbacks of one process run in their order, as on a real loop; processes take turns at random.
    Time stands still while any of them can run, and then moves to the next timer. `connect` opens
    the connections that are created on this loop.
    """

    def __init__(self, chance: Random) -> None:
        self.outside = copy_context()
        self.connect: Callable[..., Awaitable[Any]] | None = None
        self.errors: list[BaseException] = []
        self.callbacks = 0
        self._chance = chance
        self._now = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timed = 0
        self._runnable: list[SimulatedProcess] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._is_closed = False

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine to its end; raise its error, or the first error of a callback."""
        asyncio._set_running_loop(self)
        try:
            task = self.create_task(main)
            while not task.done():
                self._step()
                if self.errors:
                    raise self.errors[0]
            task.result()
        finally:
            self._discard()
            asyncio._set_running_loop(None)

    def start(self, process: SimulatedProcess, main: Coroutine[Any, Any, Any]) -> Context:
        """Run a coroutine as a process; return the context of everything that it does."""
        context = self.outside.copy()
        context.run(_process.set, process)
        self.create_task(main, context=context)
        return context

    def kill(self, process: SimulatedProcess) -> None:
        """Run nothing more of a process."""
        process.is_alive = False
        process.ready.clear()
        if process in self._runnable:
            self._runnable.remove(process)

    def stall(self, process: SimulatedProcess, seconds: float) -> None:
        """Run nothing of a process for some time."""
        process.is_stalled = True
        if process in self._runnable:
            self._runnable.remove(process)
        self.call_later(seconds, self._continue, process, context=self.outside)

    def _continue(self, process: SimulatedProcess) -> None:
        process.is_stalled = False
        if process.ready:
            self._runnable.append(process)

    def _step(self) -> None:
        while not self._runnable:
            self._pass_time()
        chosen = self._chance.randrange(len(self._runnable)) if len(self._runnable) > 1 else 0
        process = self._runnable[chosen]
        handle = process.ready.popleft()
        if not process.ready:
            self._runnable.remove(process)
        if handle.cancelled():
            return
        self.callbacks += 1
        if self.callbacks > MOST_CALLBACKS:
            raise SimulationStuck(f"{MOST_CALLBACKS} callbacks, the last one is {handle}")
        handle._run()
        if process.dies_after is not None:
            process.dies_after -= 1
            if process.dies_after <= 0:
                self.kill(process)

    def _pass_time(self) -> None:
        if not self._timers:
            raise SimulationStuck("nothing is left to run")
        self._now = max(self._now, self._timers[0][0])
        while self._timers and self._timers[0][0] <= self._now:
            self._enqueue(heapq.heappop(self._timers)[2])

    def _enqueue(self, handle: Any) -> None:
        process = handle._context.get(_process, OUTSIDE)
        if not process.is_alive or handle.cancelled():
            return
        if not process.ready and not process.is_stalled:
            self._runnable.append(process)
        process.ready.append(handle)

    def _discard(self) -> None:
        """Close every coroutine that still waits; nothing that they start now runs."""
        self._is_closed = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a coroutine that never began is one of them
            self._close_coroutines()

    def _close_coroutines(self) -> None:
        for task in self._tasks:  # grows while it is read
            coroutine = task.get_coro()
            for _ in range(20):  # one that awaits while it is closed must be closed again
                if task.done() or coroutine is None:
                    break
                with suppress(BaseException):
                    coroutine.close()
                    break

    # What asyncio asks of an event loop.

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self._is_closed:
            self._enqueue(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._timed += 1
        heapq.heappush(self._timers, (when, self._timed, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, **options)
        self._tasks.append(task)
        return task

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **_options: Any
    ) -> Any:
        assert self.connect is not None
        return await self.connect(protocol_factory)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Record an error of a callback; a task whose error nobody read is none."""
        if "handle" in context and not self._is_closed:
            self.errors.append(context["exception"])

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._is_closed

    def is_closed(self) -> bool:
        return self._is_closed


def current_process() -> SimulatedProcess:
    """Return the process whose callback runs."""
    return _process.get()
