"""The limits of a process that may be given too much to do."""

import resource
import subprocess
import sys

from workers.children.child_process import cpu_limit

JUST_BEFORE_A_FULL_SECOND = """
import math, signal, time
from workers.children.child_process import cpu_limit

def use(until):
    while time.process_time() < until:
        pass

full = math.ceil(time.process_time() + 0.05)
use(full - 0.02)
with cpu_limit(0.01):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF])
    use(full + 0.3)
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.sigpending() and signal.sigwait([signal.SIGPROF])
"""


def test_whoever_is_out_of_time_has_a_second_to_say_so() -> None:
    subprocess.run([sys.executable, "-c", JUST_BEFORE_A_FULL_SECOND], check=True)


def test_a_limit_ends_with_what_it_limits() -> None:
    before = resource.getrlimit(resource.RLIMIT_CPU)
    with cpu_limit(60):
        assert resource.getrlimit(resource.RLIMIT_CPU) != before
    assert resource.getrlimit(resource.RLIMIT_CPU) == before
