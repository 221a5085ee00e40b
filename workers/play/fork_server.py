"""A fork server: a copy of the worker process from before it had threads, which forks children.

Importing a worker takes Python a second of CPU time; a fork takes none, and shares memory.
"""

import asyncio
import logging
import os
import select
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import IO, Self

from app.local.parent_death import die_with_parent
from app.local.supervisor import exit_with

log = logging.getLogger(__name__)

MESSAGE_BYTES = 1024
REPORT_S = 10.0
"""A server that has not reported a start or an end by then, for example since it was stopped, is
killed, and its children with it."""
STOPS = (signal.SIGINT, signal.SIGTERM)

RunChild = Callable[[str, IO[bytes], int], int]
"""Runs in a child: takes its name, what it reads and where it writes; returns its exit status."""


class ForkedProcess:
    """A child of the fork server, as `asyncio.subprocess.Process` shows one."""

    def __init__(
        self,
        pid: int,
        stdin: asyncio.WriteTransport,
        stdout: asyncio.StreamReader,
        ended: asyncio.Future[int],
        check: Callable[[asyncio.Future[int]], None],
    ) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self._pid = pid
        self._ended = ended
        self._check = check

    async def wait(self) -> int:
        """Return the exit status, or minus the signal that killed it, once it has ended.

        It is `os.EX_UNAVAILABLE` if the child ended with the fork server.
        """
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        if not self._ended.done():
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._check(self._ended)


class ForkServer:
    """Forks children that run `run`. Its process and the children end with this process.

    Create it on the main thread, before any other thread or an event loop exists; use it on one
    event loop, within its context.
    """

    def __init__(self, run: RunChild, report_s: float = REPORT_S) -> None:
        self._report_s = report_s
        self._socket, theirs = socket.socketpair()
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            self._socket.close()
            exit_with(lambda: _serve(theirs, parent, run))
        theirs.close()
        self._starting = asyncio.Lock()
        self._started: asyncio.Queue[tuple[int, asyncio.Future[int]] | OSError] = asyncio.Queue()
        self._children: dict[int, asyncio.Future[int]] = {}

    async def __aenter__(self) -> Self:
        reader, self._writer = await asyncio.open_connection(sock=self._socket.dup())
        self._reading = asyncio.create_task(self._read(reader))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reading.cancel()
        await asyncio.wait([self._reading])
        self._writer.close()

    def close(self) -> None:
        """End the server."""
        self._socket.close()
        self._kill()
        os.waitpid(self._pid, 0)

    def _check(self, killed: asyncio.Future[int]) -> None:
        """Kill the server unless it reports the end of a killed child in time."""

        def give_up() -> None:
            if not killed.done():
                self._kill()

        asyncio.get_running_loop().call_later(self._report_s, give_up)

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)

    async def start(self, name: str) -> ForkedProcess:
        """Fork a child of that name. Raises OSError if there can be none."""
        loop = asyncio.get_running_loop()
        (to_read, our_write), (our_read, to_write) = os.pipe(), os.pipe()
        try:
            pid, ended = await self._forked(name, to_read, to_write)
        except BaseException:
            os.close(our_read)
            os.close(our_write)
            raise
        finally:
            os.close(to_read)
            os.close(to_write)
        stdout = asyncio.StreamReader()
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stdout), os.fdopen(our_read, "rb")
        )
        stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(our_write, "wb"))
        return ForkedProcess(pid, stdin, stdout, ended, self._check)

    async def _forked(
        self, name: str, to_read: int, to_write: int
    ) -> tuple[int, asyncio.Future[int]]:
        async with self._starting:
            socket.send_fds(self._socket, [name.encode()], [to_read, to_write])
            try:
                async with asyncio.timeout(self._report_s):
                    started = await self._started.get()
            except TimeoutError:
                self._kill()
                raise
        if isinstance(started, OSError):
            raise started
        return started

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Take the server's reports: `started PID`, `failed ERRNO` and `ended PID STATUS`."""
        with suppress(ConnectionError):  # it died before it had read everything
            async for line in reader:
                report, number, *status = line.decode().split()
                if report == "started":
                    ended = asyncio.get_running_loop().create_future()
                    self._children[int(number)] = ended
                    self._started.put_nowait((int(number), ended))
                elif report == "failed":
                    self._started.put_nowait(OSError(int(number), os.strerror(int(number))))
                else:
                    self._children.pop(int(number)).set_result(int(status[0]))
        log.error("the fork server has died: this worker cannot play suspects, and stops")
        signal.raise_signal(signal.SIGTERM)
        self._started.put_nowait(ChildProcessError("the fork server has died"))
        for ended in self._children.values():
            ended.set_result(os.EX_UNAVAILABLE)
        self._children.clear()


def _serve(control: socket.socket, parent: int, run: RunChild) -> int:
    """Fork a child for every name until the worker is gone."""
    die_with_parent(signal.SIGKILL, parent)
    for number in STOPS:  # the worker decides when its children end
        signal.signal(number, _nothing)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, _nothing)
    while True:
        ready: list[int] = select.select([control.fileno(), woken], [], [])[0]
        if woken in ready:
            os.read(woken, MESSAGE_BYTES)
            _report_ended(control)
        if control.fileno() in ready:
            name, fds, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 2)
            if not name:
                return 0
            server = os.getpid()
            try:
                pid = os.fork()
            except OSError as error:  # such as too many processes
                control.sendall(f"failed {error.errno}\n".encode())
                pid = -1
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for descriptor in (control.detach(), woken, wake):
                    os.close(descriptor)
                exit_with(partial(_run, run, server, name.decode(), fds[0], fds[1]))
            for descriptor in fds:
                os.close(descriptor)
            if pid > 0:
                control.sendall(f"started {pid}\n".encode())


def _run(run: RunChild, server: int, name: str, to_read: int, to_write: int) -> int:
    die_with_parent(signal.SIGKILL, server)
    return run(name, os.fdopen(to_read, "rb"), to_write)


def _report_ended(control: socket.socket) -> None:
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            control.sendall(f"ended {pid} {os.waitstatus_to_exitcode(status)}\n".encode())


def _nothing(*_: object) -> None:
    """Handle a signal: unlike an ignored one, it is not inherited by programs that are executed."""
