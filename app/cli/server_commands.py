"""`hone serve | api | worker | demo | config | openapi`: commands that run Hone or describe it."""

import json
import logging
import os
from pathlib import Path
from typing import Annotated

import typer

from app.cli.demo import demo
from app.cli.failures import ServiceFailed
from app.cli.processes import python
from app.cli.root import INTERRUPTED, app, console, read_settings
from app.cli.serving import serve
from app.cli.settings_shown import show_settings
from app.cli.words import say
from app.contract.status import Status


@app.command(name="serve")
def serve_command() -> None:
    """Run Redis, API and worker until Ctrl-C."""
    serve(read_settings(), console())


@app.command()
def api() -> None:
    """Run the API alone; it needs HONE_REDIS_URL."""
    from app import main  # noqa: PLC0415 - the web framework takes half a second to import

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    raise typer.Exit(main.serve(read_settings()))


@app.command()
def worker() -> None:
    """Run a worker alone; it needs HONE_REDIS_URL."""
    if not read_settings().redis_url:
        raise ServiceFailed("HONE_REDIS_URL is empty; `hone serve` would start a Redis of its own")
    command = [*python(), "-m", "workers"]
    os.execv(command[0], command)  # noqa: S606 - becoming the worker is the purpose


@app.command(name="demo")
def demo_command() -> None:
    """Watch a rough text get better: no key, no network, nothing left behind."""
    try:
        ended = demo(read_settings(), console())
    except KeyboardInterrupt:
        say(console(), "\nStopped. Nothing is left running.")
        raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(0 if ended.status is Status.SUCCEEDED else 1)


@app.command()
def config() -> None:
    """Print every setting with its value, default and meaning; secrets are masked."""
    show_settings(read_settings(), console())


@app.command()
def openapi(
    out: Annotated[Path | None, typer.Option(help="Write it to this file instead.")] = None,
) -> None:
    """Print the OpenAPI document of the API."""
    from app import main  # noqa: PLC0415 - the web framework takes half a second to import

    document = json.dumps(main.create_app(read_settings()).openapi(), indent=2) + "\n"
    if out:
        out.write_text(document, encoding="utf-8")
    else:
        print(document, end="")
