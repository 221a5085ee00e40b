"""A program that dies with the process that started it.

Run as a script, this file is the launcher: it asks the kernel for a signal at its parent's death and
becomes the program. It imports nothing of Hone's, so it costs about as much as starting Python.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1


def tethered(command: Sequence[str], at_death: signal.Signals) -> list[str]:
    """The command that runs `command` and sends it `at_death` when this process dies, however it dies.

    The program keeps the launcher's process id, descriptors and environment. Only Linux can do this
    (prctl(2)); elsewhere the program is merely started. The kernel watches the thread that starts the
    program, not the process, so this refuses to be called outside the main thread: RuntimeError.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("a program tied to its parent's death must be started by the main thread")
    launcher = [sys.executable, "-I", "-S", os.path.abspath(__file__)]
    return [*launcher, str(int(at_death)), str(os.getpid()), *command]


def become(at_death: int, parent: int, command: Sequence[str]) -> None:
    """Replace this process by `command`, or leave at once if `parent` is already dead."""
    if sys.platform == "linux":
        import ctypes

        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, at_death, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # A parent that died before the request was made will never cause the signal.
    if os.getppid() != parent:
        raise SystemExit("the process that started this one has ended")
    os.execvp(command[0], command)


if __name__ == "__main__":
    become(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
