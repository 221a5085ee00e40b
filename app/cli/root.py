"""The command line application, and what its commands share."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import Console
from typer.core import TyperGroup

from app.cli.client import CliError
from app.cli.display import say
from app.local.embedded import EmbeddedRedisError, RedisNotFound
from app.settings import Settings

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


class HoneGroup(TyperGroup):
    """Prints an expected error and exits with code 1."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (CliError, RedisNotFound, EmbeddedRedisError) as error:
            say(Console(stderr=True), str(error), "red")
            raise typer.Exit(1) from None


app = typer.Typer(
    name="hone",
    cls=HoneGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Refinement as an API: submit a text, watch it get better, get the best draft.",
)


def read_settings() -> Settings:
    """Read the settings; raise BadParameter with the name of each invalid variable."""
    try:
        return Settings()
    except ValidationError as error:
        wrong = [f"HONE_{str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors()]
        raise typer.BadParameter("; ".join(wrong)) from None


def console() -> Console:
    """Return the console for results: standard output."""
    return Console(file=sys.stdout)


ServerOption = Annotated[
    str | None,
    typer.Option(
        envvar="HONE_SERVER", help="URL of the API.  [default: from HONE_HOST and HONE_PORT]"
    ),
]
RefinementIdArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the refinement.")]

ThresholdOption = Annotated[float | None, typer.Option(help="Score that is good enough.")]
MaxIterationsOption = Annotated[int | None, typer.Option(help="Maximum number of drafts.")]
ModelOption = Annotated[str | None, typer.Option(help="Model of every role: provider:name.")]
StrategyOption = Annotated[str | None, typer.Option(help="Strategy of the refinement.")]
ReviewWhenOption = Annotated[
    str | None,
    typer.Option(metavar="WHEN", help="Ask a reviewer: each_iteration or before_completion."),
]
JsonOption = Annotated[Path | None, typer.Option(help="The request, or its changes, as JSON.")]
WatchOption = Annotated[bool, typer.Option("--watch", help="Show progress until it has ended.")]
TextsOption = Annotated[
    bool, typer.Option("--texts", help="While watching, show texts as they are written.")
]
