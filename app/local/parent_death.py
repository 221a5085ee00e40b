"""Starts a program that ends when its parent process dies.

Run as a script, this file is the launcher: it asks the kernel for a signal at its parent's death
and replaces itself by the program. It imports nothing of Hone, so that it starts fast.
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
    """Return the command that runs `command` and sends it `at_death` once this process has died.

    The program keeps the launcher's process id, descriptors and environment. Only Linux supports
    the signal (prctl(2)); elsewhere the program runs without it. The kernel watches the thread that
    starts the program, not the process: raises RuntimeError outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("only the main thread can start a program that ends with its parent")
    launcher = [sys.executable, "-I", "-S", str(Path(__file__).resolve())]
    return [*launcher, str(int(at_death)), str(os.getpid()), *command]


def become(at_death: int, parent: int, command: Sequence[str]) -> None:
    """Replace this process by `command`, or exit at once if `parent` is already dead."""
    die_with_parent(at_death, parent)
    os.execvp(command[0], [*command])  # noqa: S606 - it replaces itself by the program


def die_with_parent(at_death: int, parent: int) -> None:
    """Ask for a signal at the death of the process `parent`; exit at once if it is already dead."""
    if sys.platform == "linux":
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, at_death, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # If the parent died before the call of prctl, the signal never comes.
    if os.getppid() != parent:
        raise SystemExit("the parent process has ended")


if __name__ == "__main__":
    become(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
