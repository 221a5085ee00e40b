"""A program that dies with the process that started it.

Run as a script, this file is the launcher: it asks the kernel for a signal at its parent's death
and becomes the program. It imports nothing of Hone's: it costs what starting Python costs.
"""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1


def dying_with_parent(command: Sequence[str], at_death: signal.Signals) -> list[str]:
    """The command that runs `command` and sends it `at_death` once this process has died.

    The program keeps the launcher's process id, descriptors and environment. Only Linux can do
    this (prctl(2)); elsewhere the program is merely started. The kernel watches the thread that
    starts the program, not the process: outside the main thread this is a RuntimeError.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("only the main thread can start a program that dies with it")
    launcher = [sys.executable, "-I", "-S", str(Path(__file__).resolve())]
    return [*launcher, str(int(at_death)), str(os.getpid()), *command]


def become(at_death: int, parent: int, command: Sequence[str]) -> None:
    """Replace this process by `command`, or leave at once if `parent` is already dead."""
    if sys.platform == "linux":
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, at_death, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # A parent that died before the request was made will never cause the signal.
    if os.getppid() != parent:
        raise SystemExit("the process that started this one has ended")
    os.execvp(command[0], [*command])  # noqa: S606 - becoming the program is the purpose


if __name__ == "__main__":
    become(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
