"""A scripted server, and the command line pointed at it."""

from collections.abc import Callable, Iterator

import pytest
from typer.testing import CliRunner, Result

from app.cli import app
from tests.cli.scripted_server import ScriptedApi, scripted_server

Run = Callable[..., Result]


@pytest.fixture
def server() -> Iterator[ScriptedApi]:
    with scripted_server() as script:
        yield script


@pytest.fixture
def hone(server: ScriptedApi) -> Run:
    """Run one command against the scripted server."""

    def run(*arguments: str, stdin: str | None = None, **environment: str) -> Result:
        variables = {"HONE_SERVER": server.url, **environment}
        return CliRunner().invoke(app, list(arguments), input=stdin, env=variables)

    return run
