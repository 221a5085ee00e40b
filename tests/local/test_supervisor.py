"""The supervisor: restarts what crashed, ends what it started, and takes it along when killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis

from app.local.embedded import EmbeddedRedis
from app.local.supervisor import Backoff, Keeper, Program, Supervisor
from tests.processes import is_alive, killed_at_the_end
from tests.waiting import TIMEOUT_S, eventually

ROOT = Path(__file__).parent.parent.parent

SLEEPER = "import time; print('up', flush=True); time.sleep(600)"
POLITE = """
import signal, sys, time
def leave(*_):
    print('leaving', flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print('up', flush=True)
time.sleep(600)
"""
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SLEEPER
WITH_GRANDCHILD = (
    "import subprocess, sys\n"
    f"child = subprocess.Popen([sys.executable, '-c', {SLEEPER!r}])\n"
    "print(child.pid, flush=True)\n" + SLEEPER
)
SUPERVISING = f"""
from app.local.supervisor import Program
from app.local.supervisor import Supervisor
import os, sys
program = Program("sleeper", (sys.executable, "-c", {SLEEPER!r}), os.environ)
with Supervisor([program], lambda *_: None) as supervisor:
    print(f"pid {{supervisor.children[0].pid}}", flush=True)
    supervisor.run()
"""

FORKING = """
from app.local.supervisor import ForkedProgram, Supervisor
import time
def sleep():
    time.sleep(600)
with Supervisor([ForkedProgram("sleeper", sleep)], lambda *_: None) as supervisor:
    print(f"pid {supervisor.children[0].pid}", flush=True)
    supervisor.run()
"""


class CollectedOutput:
    """What was emitted, as lines of `name: text`."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, name: str, line: str) -> None:
        self.lines.append(f"{name}: {line}")

    def has(self, line: str) -> bool:
        return eventually(lambda: line in self.lines)


class FragileProcess:
    """A thing that dies when told to."""

    def __init__(self, status: int) -> None:
        self.is_running = False
        self.starts = 0
        self.status = status

    def revive(self) -> None:
        self.is_running = True
        self.starts += 1


def python(name: str, code: str, **environment: str) -> Program:
    return Program(name, (sys.executable, "-c", code), environment)


def restarted(supervisor: Supervisor, old: int | None) -> bool:
    supervisor.tick()
    return supervisor.children[0].pid not in (None, old)


def test_output_is_emitted_with_the_name_of_its_program() -> None:
    output = CollectedOutput()
    with Supervisor([python("api", SLEEPER), python("worker", SLEEPER)], output):
        assert output.has("api: up")
        assert output.has("worker: up")


def test_a_program_gets_the_environment_it_was_given_and_no_other() -> None:
    output = CollectedOutput()
    show = "import os; print(sorted(name for name in os.environ if name != 'LC_CTYPE'))"
    with Supervisor([python("api", show, HONE_REDIS_URL="unix:///x")], output):
        assert output.has("api: ['HONE_REDIS_URL']")


def test_a_crashed_program_is_started_again() -> None:
    output = CollectedOutput()
    with Supervisor([python("worker", SLEEPER)], output, backoff=Backoff(first_s=0)) as supervisor:
        assert output.has("worker: up")
        old = supervisor.children[0].pid
        assert old is not None
        os.kill(old, signal.SIGKILL)
        assert eventually(lambda: restarted(supervisor, old))


def test_a_dead_redis_is_started_again_with_its_data(tmp_path: Path) -> None:
    redis = EmbeddedRedis(tmp_path)
    with (
        Redis.from_url(redis.url, socket_timeout=TIMEOUT_S) as client,
        Supervisor([], CollectedOutput(), redis=redis, backoff=Backoff(first_s=0)) as supervisor,
    ):
        client.set("kept", "yes")
        os.kill(redis.pid, signal.SIGKILL)
        assert eventually(lambda: not redis.is_running)
        supervisor.tick()
        supervisor.tick()
        assert client.get("kept") == b"yes"


@pytest.mark.parametrize(
    ("status", "expected"), [(1, [0, 1, 2, 4, 8, 10, 0]), (-signal.SIGKILL, [0, 1, 2, 3, 3, 3, 0])]
)
def test_each_crash_in_a_row_waits_twice_as_long_until_a_steady_run(
    status: int, expected: list[int]
) -> None:
    now = [0.0]
    thing = FragileProcess(status=status)
    backoff = Backoff(1, 10, 3, 60)
    keeper = Keeper("worker", thing, CollectedOutput(), backoff, clock=lambda: now[0])
    waits = []
    for ran_s in (0, 0, 0, 0, 0, 0, 60):
        keeper.tick()
        now[0] += ran_s
        thing.is_running = False
        died, starts = now[0], thing.starts
        while thing.starts == starts:
            keeper.tick()
            now[0] += 1
        waits.append(now[0] - 1 - died)
    assert waits == expected


def test_what_has_crashed_for_days_is_started_again() -> None:
    assert Backoff(1, 10, 3, 60).delay_s(9_999, killed=False) == 10


def test_a_program_that_was_killed_often_does_not_wait_after_its_first_error() -> None:
    now = [0.0]
    thing = FragileProcess(status=-signal.SIGKILL)
    backoff = Backoff(1, 10, 3, 60)
    keeper = Keeper("worker", thing, CollectedOutput(), backoff, clock=lambda: now[0])
    for thing.status in (-signal.SIGKILL, -signal.SIGKILL, -signal.SIGKILL, 1):
        now[0] += 3
        keeper.tick()
        thing.is_running = False
        keeper.tick()
    assert thing.is_running


def test_programs_are_asked_to_leave_and_redis_ends_last(tmp_path: Path) -> None:
    redis = EmbeddedRedis(tmp_path)
    seen: list[tuple[str, bool]] = []
    with Supervisor(
        [python("api", POLITE)],
        lambda _name, line: seen.append((line, redis.is_running)),
        redis=redis,
    ):
        assert eventually(lambda: ("up", True) in seen)
    assert seen == [("up", True), ("leaving", True)]
    assert not redis.is_running


def test_a_program_that_will_not_leave_is_killed_after_its_grace() -> None:
    output = CollectedOutput()
    with Supervisor([python("worker", STUBBORN)], output, grace_s=0.1) as supervisor:
        assert output.has("worker: up")
    assert output.lines[-1] == "worker: did not end in time: killing it"
    assert not supervisor.children[0].is_running


def test_a_second_ctrl_c_skips_the_grace_period() -> None:
    output = CollectedOutput()
    hurried = Supervisor(
        [python("worker", STUBBORN)], output, grace_s=10_000, in_a_hurry=lambda: True
    )
    with hurried:
        assert output.has("worker: up")
    assert not hurried.children[0].is_running


def test_what_a_program_started_ends_with_it() -> None:
    output = CollectedOutput()
    with Supervisor([python("worker", WITH_GRANDCHILD)], output):
        assert eventually(lambda: len(output.lines) > 1)
        grandchild = int(next(line for line in output.lines if "up" not in line).split()[-1])
        assert is_alive(grandchild)
    assert eventually(lambda: not is_alive(grandchild))


@pytest.mark.parametrize("supervising", [SUPERVISING, FORKING])
def test_programs_die_with_a_supervisor_that_is_killed(supervising: str) -> None:
    supervisor = subprocess.Popen(
        [sys.executable, "-c", supervising], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with killed_at_the_end(supervisor):
        assert supervisor.stdout is not None
        line = next(line for line in supervisor.stdout if line.startswith("pid"))
        child = int(line.split()[1])
        assert is_alive(child)
    assert eventually(lambda: not is_alive(child))
