"""The contenders: the processes of each, and their arguments."""

import json
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from benchmarks.processes import ServiceProgram

AT_ONCE = 500
RQ_REFINEMENTS = 10
DEFAULTS: Mapping[str, str] = {}


@dataclass(frozen=True)
class Setup:
    """The setup of a run: a model server, its own Redis, a log directory, how many refinements.

    Processes end with `stack`.
    """

    model_url: str
    redis_url: str
    directory: Path
    count: int
    stack: ExitStack
    under: tuple[str, ...] = ()
    """A command that runs the processes under test."""

    def program(self, name: str, *command: object, **more: Any) -> ServiceProgram:
        """Start a process of this run; with `speaks` it writes JSON lines to standard output."""
        program = ServiceProgram(name, *command, log_dir=self.directory, **more)
        return self.stack.enter_context(program)


@dataclass(frozen=True)
class Cast:
    """The processes of one run: the ones measured, and the one that drives them."""

    tested: tuple[ServiceProgram, ...]
    driver: ServiceProgram
    reporters: tuple[ServiceProgram, ...]
    """Those that print a line with their results at the end."""


@dataclass(frozen=True)
class Contender:
    """One line of the table."""

    name: str
    keeps: str
    start: Callable[[Setup], Cast]
    most: int | None = None
    """Maximum number of refinements, because more would take minutes."""


def _bare(setup: Setup) -> Cast:
    program = setup.program(
        "bare",
        "benchmarks.peers.bare",
        *("--model", setup.model_url, "--count", setup.count, "--at-once", AT_ONCE),
    )
    program.heard()
    return Cast((program,), program, (program,))


def _rq(setup: Setup) -> Cast:
    module = "benchmarks.peers.rq_forking"
    workers = tuple(
        setup.program(f"rq worker {number}", module, "work", "--redis", setup.redis_url)
        for number in range(os.cpu_count() or 1)
    )
    for worker in workers:
        worker.heard()
    driver = setup.program(
        "rq submit",
        *(module, "submit", "--redis", setup.redis_url),
        *("--model", setup.model_url, "--count", setup.count),
    )
    driver.heard()
    return Cast(workers, driver, (driver,))


def _saq(setup: Setup) -> Cast:
    module = "benchmarks.peers.saq_checkpoints"
    common = ("--redis", setup.redis_url, "--count", setup.count)
    worker = setup.program(
        "saq worker",
        *(module, "work", *common, "--model", setup.model_url, "--at-once", AT_ONCE),
    )
    worker.heard()
    driver = setup.program("saq submit", module, "submit", *common)
    driver.heard()
    return Cast((worker,), driver, (driver, worker))


def hone(
    setup: Setup,
    *,
    api: Sequence[str] = ("app.cli", "api"),
    worker: Sequence[str] = ("workers",),
    api_env: Mapping[str, str] = DEFAULTS,
    worker_env: Mapping[str, str] = DEFAULTS,
) -> Cast:
    """Start one API and one worker, and the client that drives them."""
    port = free_port()
    env = {
        "HONE_REDIS_URL": setup.redis_url,
        "HONE_HOST": "127.0.0.1",
        "HONE_PORT": str(port),
        "HONE_CONCURRENCY": str(AT_ONCE),
        "HONE_QUEUE_MAX": str(setup.count + 1_000),
        "HONE_MODEL": "openai:bench",
        "HONE_OPENAI_BASE_URL": setup.model_url,
        "OPENAI_API_KEY": "key",
    }
    served = setup.program("api", *api, env={**env, **api_env}, speaks=False, under=setup.under)
    played = setup.program(
        "worker", *worker, env={**env, **worker_env}, speaks=False, under=setup.under
    )
    _wait_until_ready(port, served, played)
    driver = setup.program("load", "benchmarks.load", "--port", port, "--count", setup.count)
    driver.heard()
    return Cast((served, played), driver, (driver,))


CONTENDERS = (
    Contender("bare asyncio loop", "nothing", _bare),
    Contender("RQ, forking, 10 only", "the job", _rq, RQ_REFINEMENTS),
    Contender("SAQ, a checkpoint per step", "the job and its replies", _saq),
    Contender("Hone whole", "every step and event", hone),
)
SAQ, HONE = CONTENDERS[2].name, CONTENDERS[3].name


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_ready(port: int, *programs: ServiceProgram) -> None:
    for _ in range(3_000):
        for program in programs:
            if not program.is_running:
                raise program.failure("ended")
        try:
            with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as ready:
                if json.load(ready).get("workers", 0) > 0:
                    return
        except (URLError, OSError):
            pass
        time.sleep(0.1)
    raise programs[0].failure("did not become ready in time")
