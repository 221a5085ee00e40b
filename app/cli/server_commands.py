"""The commands that run processes: serve, demo, api, worker, and those about settings."""

import base64
import contextlib
import json
import os
import queue
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, NoReturn, Self

import typer
from pydantic import SecretStr
from pydantic.fields import FieldInfo
from rich.console import Console
from rich.table import Table

from app.cli.contract_client import ContractClient, ServiceFailed
from app.cli.display import plain_text, say, show_ending, watch
from app.cli.processes import (
    SENDER,
    CrashWatch,
    free_port,
    look_while_starting,
    python,
    servers_of,
    service,
    url_of,
    wait_until_ready,
)
from app.cli.root import (
    INTERRUPTED,
    app,
    check_writable,
    console,
    errors,
    read_settings,
    write_file,
)
from app.contract.endpoints import PREFIX
from app.contract.snapshot import Snapshot
from app.contract.status import Status
from app.local.supervisor import Interrupts
from app.settings import SERVER, Settings, limits_in_words, weights_in_words
from app.telemetry import configure_logs
from hone import WebhookRejected, verify_webhook

MODEL = "offline:editor"
HOST = "127.0.0.1"


def demo(settings: Settings, console: Console) -> Snapshot:
    """Run a service in a temporary directory, refine the rough text, and end the service."""
    crashes = CrashWatch()
    with (
        Interrupts() as interrupts,
        tempfile.TemporaryDirectory(prefix="hone-demo-") as directory,
        WebhookReceiver() as receiver,
    ):
        own = settings.model_copy(update=_apart(Path(directory), receiver))
        with (
            service(own, crashes.emit, interrupts) as supervisor,
            ContractClient(url_of(own)) as client,
        ):
            wait_until_ready(client, lambda: crashes.look(supervisor))
            hook = {"url": receiver.url, "secret": receiver.secret}
            submitted = client.submit(**(demo_request() | {"webhook": hook}))
            say(
                console, f"Refining a rough text of {len(rough_text().split())} words with {MODEL}."
            )
            client.meanwhile = lambda: crashes.look(supervisor)
            ended = watch(client, submitted.id, console)
            show_ending(client, ended, console, console)
            if ended.result:
                say(console, ended.result.draft, wraps=True)
            say(console, f"\nWebhook: {receiver.news()}")
            return ended


class WebhookReceiver:
    """Listens on this machine, and verifies webhooks as Standard Webhooks describes it."""

    def __init__(self) -> None:
        self.secret = PREFIX + base64.b64encode(os.urandom(32)).decode()
        self._arrivals: queue.Queue[str] = queue.Queue()

        def receive(handler: BaseHTTPRequestHandler) -> None:
            body = handler.rfile.read(int(handler.headers["Content-Length"]))
            try:
                message = verify_webhook(body, dict(handler.headers), self.secret)
            except WebhookRejected:
                handler.send_error(401)
                return
            handler.send_response(204)
            handler.end_headers()
            arrived = f"{message.type} arrived at {self.url}, {message.id}"
            self._arrivals.put(f"{arrived}, its signature is valid.")

        handling = {"do_POST": receive, "log_message": lambda *_: None}
        handler = type("Handler", (BaseHTTPRequestHandler,), handling)
        self._server = ThreadingHTTPServer((HOST, 0), handler)
        self.url = f"http://{HOST}:{self._server.server_port}/"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def news(self) -> str:
        """Return what has arrived, within 20 seconds."""
        try:
            return self._arrivals.get(timeout=20)
        except queue.Empty:
            return "nothing has arrived."


def rough_text() -> str:
    """Return a business letter, hastily written."""
    return files("app.cli").joinpath("demo.txt").read_text(encoding="utf-8").strip()


def demo_request() -> dict[str, Any]:
    """Return the request of the demonstration."""
    return {
        "task": "Make this message easy to read. Keep every fact.",
        "draft": rough_text(),
        "criteria": [
            {"name": "readability", "weight": 2},
            {"name": "conciseness", "weight": 2},
            {"name": "spelling", "floor": 0.9},
        ],
        "threshold": 0.9,
        "max_iterations": 6,
        "models": {"generator": MODEL, "critic": MODEL},
    }


def _apart(directory: Path, receiver: WebhookReceiver) -> dict[str, Any]:
    """Return settings that share nothing with another Hone on this machine."""
    return {
        "host": HOST,
        "port": free_port(HOST),
        "redis_url": "",
        "data_dir": directory,
        "model": MODEL,
        "workers": 1,
        "grace_s": 3.0,
        "auth": "auto",
        "secret_key": SecretStr(receiver.secret),
        "outbound_allow": receiver.url.removeprefix("http://").removesuffix("/"),
    }


def serve(settings: Settings, console: Console) -> None:
    """Run until interrupted: one Ctrl-C ends everything, a second one immediately.

    With port 0 it listens on a free port.
    """
    if settings.port == 0:
        settings = settings.model_copy(update={"port": free_port(settings.host)})
    log = PrefixedLog(console)
    url = url_of(settings)
    redis = settings.data_dir.expanduser() if not settings.redis_url else "HONE_REDIS_URL"
    with (
        contextlib.suppress(KeyboardInterrupt),
        Interrupts() as interrupts,
        service(settings, log, interrupts) as supervisor,
        ContractClient(url) as client,
    ):
        wait_until_ready(client, lambda: look_while_starting(supervisor))
        say(console, f"Hone is ready: {url}", "bold green")
        for name, where in (
            ("console", f"{url}/console"),
            ("documentation", f"{url}/docs"),
            ("data", redis),
        ):
            say(console, f"  {name:<13}  {where}")
        say(console, "Ctrl-C ends it.")
        supervisor.run()
    say(console, "Hone has ended.")


class PrefixedLog:
    """Prints the output of the processes, each line with the name of its process."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()

    def __call__(self, name: str, line: str) -> None:
        # A closed terminal must not prevent an orderly shutdown.
        with self._lock, contextlib.suppress(OSError):
            # A line of JSON says which process it is from.
            say(self._console, line if line.startswith("{") else f"{name:<6} | {line}")
            sys.stdout.flush()


MASK = "********"
PASSWORD_IN_URL = re.compile(r"(?<=://)([^/@:?#\s]*:)[^?#\s]*@")
TOKEN_IN_URL = re.compile(r"(?<=://)[^/@:?#\s]+@")
PASSWORD_IN_QUERY = re.compile(
    r"([?&][^=&]*(?:password|passwd|secret|token|key)=)[^&#\s]*", re.IGNORECASE
)


@dataclass(frozen=True)
class Setting:
    """One variable as it is shown; secrets are masked."""

    variable: str
    value: str
    default: str
    meaning: str


def setting_rows(settings: Settings) -> Iterator[Setting]:
    """Yield every setting."""
    for name, field in Settings.model_fields.items():
        meaning = field.description or ""
        if name == "providers":
            example = {SERVER.format("NAME", "BASE_URL"): None}
            for variable, value in (dict(servers_of(settings.providers)) or example).items():
                yield Setting(variable, _masked(value), "", meaning)
        else:
            default = _masked(field.get_default(call_default_factory=True))
            value = _masked(getattr(settings, name))
            yield Setting(_variable(name, field), value, default, meaning)


def show_settings(settings: Settings, console: Console) -> None:
    """Print the settings: as a table on a terminal, else as the lines of a `.env` file."""
    if not console.is_terminal:
        for setting in setting_rows(settings):
            say(console, f"# {setting.meaning} Default: {setting.default or 'none'}")
            say(console, f"{setting.variable}={setting.value}\n")
        return
    table = Table("variable", "value", "default", "meaning")
    for setting in setting_rows(settings):
        cells = (setting.variable, setting.value, setting.default, setting.meaning)
        table.add_row(*(plain_text(cell) for cell in cells))
    console.print(table)


def _variable(name: str, field: FieldInfo) -> str:
    """Return the name of its variable: the last alias, else the name with the prefix HONE_."""
    choices = getattr(field.validation_alias, "choices", [])
    return str(choices[-1]) if choices else f"HONE_{name.upper()}"


def _masked(value: Any) -> str:
    if isinstance(value, SecretStr):
        return MASK if value.get_secret_value() else ""
    if isinstance(value, dict):
        is_nested = any(isinstance(limits, dict) for limits in value.values())
        return limits_in_words(value) if is_nested else weights_in_words(value)
    text = "" if value is None else PASSWORD_IN_URL.sub(rf"\1{MASK}@", str(value))
    return PASSWORD_IN_QUERY.sub(rf"\1{MASK}", TOKEN_IN_URL.sub(f"{MASK}@", text))


@app.command(name="serve")
def serve_command() -> None:
    """Run Redis, the API and workers until Ctrl-C."""
    serve(read_settings(), console())


@app.command()
def api() -> None:
    """Run the API alone; requires HONE_REDIS_URL."""
    from app import main  # noqa: PLC0415 - the web framework takes half a second to import

    settings = read_settings()
    configure_logs("api", settings.log_format, settings.log_level)
    raise typer.Exit(main.serve_api(settings))


@app.command()
def worker() -> None:
    """Run workers alone; requires HONE_REDIS_URL."""
    _become("workers")


@app.command()
def webhooks() -> None:
    """Send webhooks alone.

    Requires HONE_REDIS_URL and HONE_SECRET_KEY.
    """
    _become(SENDER)


def _become(module: str) -> NoReturn:
    """Replace this process by one that runs a module; raise ServiceFailed without a Redis."""
    if not read_settings().redis_url:
        raise ServiceFailed("HONE_REDIS_URL is not set; set it, or run `hone serve` without it")
    command = [*python(), "-m", module]
    os.execv(command[0], command)  # noqa: S606 - this interpreter


@app.command(name="demo")
def demo_command() -> None:
    """Refine a rough text and show each step.

    It needs no key and no network, and leaves no files.
    """
    try:
        ended = demo(read_settings(), console())
    except KeyboardInterrupt:
        say(console(), "\nStopped. All processes have ended.")
        raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(0 if ended.status is Status.SUCCEEDED else 1)


LOOK_INSTEAD = (
    "`hone top` shows nothing any more: `hone list` and the console name the refinements, `hone"
    " doctor` the workers, GET /v1/models what models allow, and the metrics count all of it"
)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def top() -> None:
    """Say where to look instead."""
    say(errors(), LOOK_INSTEAD)
    raise typer.Exit(2)


@app.command()
def config() -> None:
    """Print every setting with its value and meaning.

    Secrets are masked.
    """
    show_settings(read_settings(), console())


@app.command()
def openapi(
    out: Annotated[Path | None, typer.Option(help="Write it to this file instead.")] = None,
) -> None:
    """Print the OpenAPI document of the API."""
    check_writable(out)
    from app import main  # noqa: PLC0415 - the web framework takes half a second to import

    document = json.dumps(main.create_app(read_settings()).openapi(), indent=2) + "\n"
    if out:
        write_file(out, [document.encode()])
    else:
        print(document, end="")
