"""The contenders: the processes of each, and their arguments."""

import json
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from benchmarks.environments import environment_with
from benchmarks.processes import ServiceProgram

AT_ONCE = 500
RQ_REFINEMENTS = 10
LANGGRAPH_REFINEMENTS = 200
LANGGRAPH = ("langgraph==1.2.22", "langgraph-checkpoint-sqlite==3.1.2")
LANGGRAPH_SERVER = ("langgraph-cli[inmem]==0.4.40", "--no-binary", "forbiddenfruit")
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

    certificate: str | None = None
    """The file with the certificate of the model server, if it speaks TLS."""

    at_once: int = AT_ONCE
    """Refinements in flight."""

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

    is_tls: bool = False
    """Whether models are called over TLS."""

    at_once: int = AT_ONCE


def _bare(setup: Setup) -> Cast:
    program = setup.program(
        "bare",
        "benchmarks.peers.bare",
        *("--model", setup.model_url, "--count", setup.count, "--at-once", setup.at_once),
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
        *(module, "work", *common, "--model", setup.model_url, "--at-once", setup.at_once),
    )
    worker.heard()
    driver = setup.program("saq submit", module, "submit", *common)
    driver.heard()
    return Cast((worker,), driver, (driver, worker))


def _multi(setup: Setup) -> Cast:
    program = setup.program(
        "multi",
        *("benchmarks.peers.multi_checkpoints", "--redis", setup.redis_url),
        *("--model", setup.model_url, "--count", setup.count, "--at-once", setup.at_once),
    )
    program.heard()
    return Cast((program,), program, (program,))


def _langgraph(setup: Setup) -> Cast:
    program = setup.program(
        "langgraph",
        *("benchmarks.peers.langgraph_sqlite", "--database", setup.directory / "checkpoints.db"),
        *("--model", setup.model_url, "--count", setup.count, "--at-once", setup.at_once),
        python=environment_with("langgraph", *LANGGRAPH, has_hone=True),
    )
    program.heard()
    return Cast((program,), program, (program,))


def _langgraph_server(setup: Setup) -> Cast:
    python = environment_with("langgraph_server", *LANGGRAPH_SERVER, has_hone=True)
    port, config = free_port(), setup.directory / "langgraph.json"
    graph = Path(__file__).with_name("peers") / "langgraph_served.py"
    config.write_text(json.dumps({"dependencies": ["."], "graphs": {"refining": f"{graph}:graph"}}))
    server = setup.program(
        "langgraph server",
        *("langgraph_cli", "dev", "--no-browser", "--no-reload", "--config", config),
        *("--port", port, "--n-jobs-per-worker", setup.at_once, "--server-log-level", "error"),
        python=python,
        cwd=setup.directory,
        speaks=False,
        env={"MODEL_URL": setup.model_url, "LANGGRAPH_CLI_NO_ANALYTICS": "1"},
    )
    _wait_until(lambda: _answer(port, "/ok") != {}, server)
    driver = setup.program(
        "langgraph submit",
        *("benchmarks.peers.langgraph_submit", "--port", port),
        *("--count", setup.count, "--at-once", setup.at_once),
    )
    driver.heard()
    return Cast((server,), driver, (driver,))


def hone(
    setup: Setup,
    *,
    api: Sequence[str] = ("app.cli", "api"),
    worker: Sequence[str] = ("workers",),
    api_env: Mapping[str, str] = DEFAULTS,
    worker_env: Mapping[str, str] = DEFAULTS,
    workers: int = 1,
    watch: Sequence[str] = (),
) -> Cast:
    """Start one API, workers, and the client that drives them; `watch` says how it watches."""
    port, tested = start_hone(
        setup, api=api, worker=worker, api_env=api_env, worker_env=worker_env, workers=workers
    )
    counted = ("--port", port, "--count", setup.count)
    driver = setup.program("load", "benchmarks.load", *counted, *watch)
    driver.heard()
    return Cast(tested, driver, (driver,))


def start_hone(
    setup: Setup,
    *,
    api: Sequence[str] = ("app.cli", "api"),
    worker: Sequence[str] = ("workers",),
    api_env: Mapping[str, str] = DEFAULTS,
    worker_env: Mapping[str, str] = DEFAULTS,
    workers: int = 1,
) -> tuple[int, tuple[ServiceProgram, ...]]:
    """Start one API and workers; return the port of the API and all processes."""
    port = free_port()
    env = {
        "HONE_REDIS_URL": setup.redis_url,
        "HONE_HOST": "127.0.0.1",
        "HONE_PORT": str(port),
        "HONE_WORKERS": "1",
        "HONE_CONCURRENCY": str(setup.at_once),
        "HONE_QUEUE_MAX": str(setup.count + 1_000),
        "HONE_MODEL": "openai:bench",
        "HONE_OPENAI_BASE_URL": setup.model_url,
        "OPENAI_API_KEY": "key",
    }
    if setup.certificate:
        env["SSL_CERT_FILE"] = setup.certificate
    more: dict[str, Any] = {"speaks": False, "under": setup.under}
    served = setup.program("api", *api, env={**env, **api_env}, **more)
    played = [
        setup.program(f"worker {number + 1}", *worker, env={**env, **worker_env}, **more)
        for number in range(workers)
    ]
    _wait_until_ready(port, workers, served, *played)
    return port, (served, *played)


CONTENDERS = (
    Contender("bare asyncio loop", "nothing", _bare),
    Contender("RQ, forking, 10 only", "the job", _rq, RQ_REFINEMENTS),
    Contender("SAQ, a checkpoint per step", "the job and its replies", _saq),
    Contender("own loop, a MULTI per step", "the replies", _multi),
    Contender("LangGraph, SQLite", "every step", _langgraph, LANGGRAPH_REFINEMENTS),
    Contender("LangGraph's server", "some steps", _langgraph_server, LANGGRAPH_REFINEMENTS),
    Contender("Hone whole", "every step and event", hone),
)
SAQ, HONE = CONTENDERS[2].name, CONTENDERS[-1].name

VARIANTS = (
    Contender("without the limiter", "", partial(hone, worker=("benchmarks.unlimited",))),
    Contender("2 workers", "", partial(hone, workers=2)),
    Contender("4 workers", "", partial(hone, workers=4)),
    Contender("models over TLS", "", hone, is_tls=True),
    Contender("texts watched as they are written", "", partial(hone, watch=("--deltas",))),
)
"""Hone in other ways, with the load of the contenders."""

IN_FLIGHT = (
    (Contender("50 in flight", "", hone, at_once=50), 200),
    (Contender("100 in flight", "", hone, at_once=100), 200),
    (Contender("2,000 in flight", "", hone, at_once=2_000), 2_000),
    (Contender("5,000 in flight", "", hone, at_once=5_000), 5_000),
)
"""Hone with few and with many refinements, and the milliseconds that a model call takes."""


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_ready(port: int, workers: int, *programs: ServiceProgram) -> None:
    _wait_until(lambda: _answer(port, "/readyz").get("workers", 0) >= workers, *programs)


def _wait_until(is_ready: Callable[[], bool], *programs: ServiceProgram) -> None:
    for _ in range(3_000):
        for program in programs:
            if not program.is_running:
                raise program.failure("ended")
        if is_ready():
            return
        time.sleep(0.1)
    raise programs[0].failure("did not become ready in time")


def _answer(port: int, path: str) -> dict[str, Any]:
    """Return the JSON of a server, which is empty if it does not answer."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
            answered: dict[str, Any] = json.load(reply)
            return answered
    except (URLError, OSError):
        return {}
