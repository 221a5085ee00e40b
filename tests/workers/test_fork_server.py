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
from tests.waiting import eventually

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
