"""The limits of a process that may be given too much to do."""

import signal
import subprocess
import sys

from workers.children.child_process import cpu_limit

OUT_OF_TIME = """
import re, signal, time
from workers.children.child_process import cpu_limit

with cpu_limit(0.01):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF])
    {}
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.sigpending() and signal.sigwait([signal.SIGPROF])
"""
SOON = "until = time.process_time() + 0.3\n    while time.process_time() < until: pass"
NEVER = "re.match('(a|a)*b', 'a' * 60)"


def returned(code: str) -> int:
    command = [sys.executable, "-c", OUT_OF_TIME.format(code)]
    return subprocess.run(command, check=False).returncode


def test_whoever_is_out_of_time_has_a_second_to_say_so() -> None:
    assert returned(SOON) == 0


def test_code_that_does_not_return_is_ended() -> None:
    assert returned(NEVER) == -signal.SIGVTALRM


def test_a_limit_ends_with_what_it_limits() -> None:
    timers = signal.ITIMER_PROF, signal.ITIMER_VIRTUAL
    with cpu_limit(60):
        assert all(signal.getitimer(it)[0] > 0 for it in timers)
    assert not any(signal.getitimer(it)[0] for it in timers)
