"""What bubblewrap starts: limits itself, and runs the program that it is sent.

It asks for the program with a byte, once the kernel knows that the sandbox ends with the worker: if
the worker has died before, there is nothing to run.
"""

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

os.setsid()
os.closerange(3, 1 + max(map(int, os.listdir("/proc/self/fd"))))  # noqa: PTH208 - inherited ones
os.write(1, b"+")
asked = json.load(sys.stdin.buffer)
channel, nothing = os.dup(1), os.open(os.devnull, os.O_RDWR)
for stream in (0, 1, 2):
    os.dup2(nothing, stream)
for name, most in asked["limits"].items():
    resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
with open("draft.py", "w", encoding="utf-8") as file:  # noqa: PTH123
    file.write(asked["draft"])


def reporting(
    nonce: str,
    dumps: Callable[[Any], str] = json.dumps,
    write: Callable[[int, bytes], int] = os.write,
    pid: Callable[[], int] = os.getpid,
    here: int = os.getpid(),
) -> Callable[[Any], None]:
    """Return a function that writes one line of the report, unless a child of this process does."""

    def report(said: Any) -> None:
        line = f"{nonce} {dumps(said)}\n".encode() if pid() == here else b""
        while line:
            line = line[write(channel, line) :]

    return report


report = reporting(asked.pop("nonce"))
sys.path.insert(0, os.getcwd())  # noqa: PTH109
report("ready")
program: dict[str, Any] = {"__name__": "program"}
exec(compile(asked.pop("program"), "program", "exec"), program)  # noqa: S102
program["main"](asked, report, channel)
report("end")
while True:  # its CPU time is read before it is killed
    signal.pause()
