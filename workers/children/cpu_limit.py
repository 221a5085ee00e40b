"""Limits on the CPU time and the memory of a process, set by the process itself."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class OutOfTime(BaseException):
    """Raised at any point of the code when its CPU time is used up."""


def limit_memory(memory_bytes: int) -> None:
    """Limit the address space, on systems that have such limits, and write no core files."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


@contextmanager
def cpu_limit(cpu_s: float) -> Iterator[None]:
    """Raise `OutOfTime` after `cpu_s`; die a second later if C code prevents that."""
    signal.signal(signal.SIGPROF, _out_of_time)
    used = resource.getrusage(resource.RUSAGE_SELF)
    at_most = int(used.ru_utime + used.ru_stime + cpu_s) + 1
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (at_most, hard))
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _out_of_time(signum: int, frame: object) -> None:
    raise OutOfTime
