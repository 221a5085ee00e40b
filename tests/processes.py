"""Other processes as Linux shows them (proc(5))."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROC = Path("/proc")


@contextmanager
def killed_at_the_end(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Kill it however the test ends: after a failed assertion, Popen alone would wait for good."""
    with process:
        try:
            yield
        finally:
            process.kill()


def is_alive(pid: int) -> bool:
    """Whether it runs; one that has ended and was not waited for does not."""
    try:
        stat = (PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def descendants(pid: int) -> Iterator[int]:
    """Every process that it has started, and that those have started, and so on."""
    for tasks in PROC.glob(f"{pid}/task/*/children"):
        try:
            children = [int(child) for child in tasks.read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
        for child in children:
            yield child
            yield from descendants(child)


def command_of(pid: int) -> str:
    """Its command line; empty if it has ended."""
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def commands() -> frozenset[str]:
    """The command line of every process, with a space after each argument."""
    return frozenset(command_of(int(it.name)) for it in PROC.iterdir() if it.name.isdecimal())
