"""Children that a fork server forks, as their parent sees them; the parent is a program of its own.

A copy of this process would have its threads and its event loop.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import descendants, is_alive
from tests.waiting import TIMEOUT_S, eventually

ROOT = Path(__file__).parent.parent.parent

PARENT = """
import asyncio, os, sys, time
from contextlib import closing
from workers.play.fork_server import ForkServer

def run(name, incoming, outgoing):
    os.write(outgoing, name.encode() + b" runs\\n")
    for line in incoming:
        if line == b"exit 3\\n":
            sys.exit(3)
        if line == b"abort\\n":
            os.abort()
        if line == b"fail\\n":
            raise LookupError("no such thing")
        os.write(outgoing, line)
    return 0

async def play(server):
    async with server:
        one, other = await asyncio.gather(server.start("one"), server.start("other"))
        print((await one.stdout.readline() + await other.stdout.readline()).split(), flush=True)
        read = sys.stdin.readline
        while line := await asyncio.get_running_loop().run_in_executor(None, read):
            one.stdin.write(line.encode())
            print(await one.stdout.readline() or await one.wait(), flush=True)
            if one._ended.done():
                one = await server.start("next")
                await one.stdout.readline()
        other.stdin.close()
        print(await other.wait())
        one.kill()
        print(await one.wait(), flush=True)

with closing(ForkServer(run)) as server:
    asyncio.run(play(server))
"""

LOST = """
import asyncio, os, resource, signal, sys
from contextlib import closing
from workers.play.fork_server import ForkServer

def run(name, incoming, outgoing):
    os.write(outgoing, b"runs\\n")
    return len(incoming.read())

async def play(server, words):
    signal.signal(signal.SIGTERM, lambda *_: None)  # the worker would leave, and end its children
    async with server:
        child = await server.start("child")
        await child.stdout.readline()
        for word in words:
            if word == "limit":
                resource.prlimit(server._pid, resource.RLIMIT_NPROC, (0, 0))
            elif word == "start":
                try:
                    await server.start("another")
                except OSError as error:
                    print(type(error).__name__, flush=True)
            elif word == "kill-child":
                child.kill()
            elif word == "wait":
                print(await child.wait(), flush=True)
            else:
                os.kill(server._pid, getattr(signal, word))

if os.geteuid() == 0:
    os.setuid(65534)  # for root there is no limit on processes
with closing(ForkServer(run, report_s=0.5)) as server:
    asyncio.run(play(server, sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("SIGKILL wait start", [str(os.EX_UNAVAILABLE), "BrokenPipeError"]),
        ("SIGSTOP start wait", ["TimeoutError", str(os.EX_UNAVAILABLE)]),
        ("SIGSTOP kill-child wait", [str(os.EX_UNAVAILABLE)]),
        ("limit start kill-child wait", ["BlockingIOError", str(-signal.SIGKILL)]),
    ],
)
def test_no_fault_of_the_server_keeps_its_parent_waiting(words: str, said: list[str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LOST, *words.split()],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=TIMEOUT_S,
        check=True,
    )
    assert ran.stdout.split() == said


@pytest.fixture
def parent() -> "subprocess.Popen[str]":
    """The program that has a fork server and two children; it passes on what it is told."""
    return subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def told(lines: str, parent: "subprocess.Popen[str]") -> list[str]:
    output, _ = parent.communicate(lines)
    return output.splitlines()[1:]


def test_children_are_forked_heard_and_ended(parent: "subprocess.Popen[str]") -> None:
    assert told("hello\n", parent) == ["b'hello\\n'", "0", str(-signal.SIGKILL)]
    assert parent.returncode == 0


def test_the_parent_learns_how_a_child_died(parent: "subprocess.Popen[str]") -> None:
    said = told("exit 3\nabort\nfail\nhello\n", parent)
    assert said == ["3", str(-signal.SIGABRT), "1", "b'hello\\n'", "0", str(-signal.SIGKILL)]


def test_the_server_and_its_children_end_with_a_parent_that_is_killed(
    parent: "subprocess.Popen[str]",
) -> None:
    with parent:
        assert parent.stdout
        parent.stdout.readline()
        started = [*descendants(parent.pid)]
        assert len(started) == 3
        parent.kill()
        assert eventually(lambda: not any(is_alive(pid) for pid in started))


def test_a_parent_without_its_fork_server_stops(parent: "subprocess.Popen[str]") -> None:
    with parent:
        assert parent.stdout
        parent.stdout.readline()
        started = [*descendants(parent.pid)]
        [server] = [pid for pid in started if [*descendants(pid)]]
        os.kill(server, signal.SIGKILL)
        assert parent.wait() == -signal.SIGTERM
        assert eventually(lambda: not any(is_alive(pid) for pid in started))
