"""The system calls that the sandbox refuses, as a program for seccomp(2).

The program is classic BPF: it loads a field of `struct seccomp_data` (linux/seccomp.h), compares
and jumps. What is refused fails with EPERM, and a system call of another architecture ends the
process.
"""

import platform
import struct
from collections.abc import Iterator

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""By machine: its AUDIT_ARCH, and which of two numbers of a system call is its own."""

REFUSED = {
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "bpf": (321, 280),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
}
"""The numbers of the system calls that are refused, on x86-64 and on 64-bit ARM."""

SOCKET = (41, 198)
FAMILIES = (1, 2, 10)
"""Families of sockets that are allowed: Unix, IPv4 and IPv6, which reach nothing in there."""

X32 = 0x40000000
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
ALLOW, EPERM, KILL = 0x7FFF0000, 0x00050001, 0x80000000
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16


def syscall_filter(machine: str | None = None) -> bytes | None:
    """Return the program for a machine (default: this one), or None if none is known."""
    known = MACHINES.get(machine or platform.machine())
    return None if known is None else b"".join(_instructions(*known))


def _instructions(architecture: int, place: int) -> Iterator[bytes]:
    yield _instruction(LOAD, ARCHITECTURE)
    yield _instruction(EQUAL, architecture, 1, 0)
    yield _instruction(RETURN, KILL)
    yield _instruction(LOAD, NUMBER)
    yield _instruction(AT_LEAST, X32, 0, 1)
    yield _instruction(RETURN, EPERM)
    for number in sorted(numbers[place] for numbers in REFUSED.values()):
        yield _instruction(EQUAL, number, 0, 1)
        yield _instruction(RETURN, EPERM)
    yield _instruction(EQUAL, SOCKET[place], 1, 0)
    yield _instruction(RETURN, ALLOW)
    yield _instruction(LOAD, FIRST_ARGUMENT)
    for family in FAMILIES:
        yield _instruction(EQUAL, family, 0, 1)
        yield _instruction(RETURN, ALLOW)
    yield _instruction(RETURN, EPERM)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return a `struct sock_filter` (linux/filter.h) in the byte order of the machine."""
    return struct.pack("=HBBI", code, if_true, if_false, value)
