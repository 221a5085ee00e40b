"""The memory and CPU time of a process with all of its descendants, counted and limited."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

EVERY_S = 0.05
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


async def memory_exceeded(pid: int, memory_bytes: int) -> None:
    """Return when a process and its descendants hold more memory than that together.

    Pages that several of them share count for each. Where there is no /proc it never returns.
    """
    while sum(map(_resident_bytes, _tree(pid))) <= memory_bytes:  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(EVERY_S)


def cpu_time_s(pid: int) -> float:
    """Return the CPU time that a process and its descendants have used, those that ended included.

    It is 0 for a process that does not run, and where there is no /proc.
    """
    return sum(map(_ticks, _tree(pid))) / TICKS_PER_S


def _tree(pid: int) -> Iterator[int]:
    """Yield the process and its descendants; those that end meanwhile may be missing."""
    yield pid
    try:
        threads = list((PROC / str(pid) / "task").iterdir())
    except OSError:
        return
    for thread in threads:
        try:
            children = (thread / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            yield from _tree(int(child))


def _ticks(pid: int) -> int:
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    # utime, stime, cutime and cstime of proc(5)
    return sum(map(int, fields[11:15]))


def _resident_bytes(pid: int) -> int:
    try:
        return int((PROC / str(pid) / "statm").read_text().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0
