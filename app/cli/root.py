"""The command line application, and what its commands share: exit codes, options, output.

Standard output has results alone; progress, questions and errors are on standard error.
"""

import os
import secrets
import shutil
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import Console
from typer.core import TyperGroup

from app.cli.client import CliError
from app.cli.display import plain, say
from app.local.embedded import EmbeddedRedisError, RedisNotFound
from app.settings import Settings

NOT_PASSED = 3
INTERRUPTED = 130  # 128 + SIGINT, as shells have it

EXIT_CODES = (
    "Exit codes: 0 success, and where a refinement is waited for, it passed; 1 an error, which"
    " standard error explains; 2 wrong usage; 3 the refinement ended without passing, or not all of"
    " a batch succeeded; 130 interrupted by Ctrl-C."
)


class HoneGroup(TyperGroup):
    """Prints an expected error once and exits with code 1."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (CliError, RedisNotFound, EmbeddedRedisError) as error:
            say(errors(), f"Error: {error}", "red")
            raise typer.Exit(1) from None


app = typer.Typer(
    name="hone",
    cls=HoneGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Refinement as an API: submit a text, watch it get better, get the best draft.",
    epilog=EXIT_CODES,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"hone {version('hone')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Refinement as an API: submit a text, watch it get better, get the best draft."""


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


def errors(*, quiet: bool = False) -> Console:
    """Return the console for progress and errors: standard error. A quiet one prints nothing."""
    return Console(stderr=True, quiet=quiet)


def print_text(text: str) -> None:
    """Print a text to standard output: to the letter, but on a terminal wrapped and made safe."""
    if sys.stdout.isatty():
        console().print(plain(text.removesuffix("\n")), highlight=False)
    else:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()


def write_file(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file that is whole or as it was before; raise CliError.

    A device or a pipe is written to directly. Other files keep their mode.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                file.writelines(pieces)
            return
        _replace(path.resolve(), pieces)
    except OSError as error:
        raise CliError(f"cannot write {path}: {error.strerror}") from error


def _replace(path: Path, pieces: Iterable[bytes]) -> None:
    new = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}")
    try:
        with new.open("xb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, new)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def check_writable(path: Path | None) -> None:
    """Raise BadParameter if no file can be written there: before anything is paid for."""
    if path is None or (path.exists() and not path.is_file()):
        return
    if not path.resolve().parent.is_dir():
        raise typer.BadParameter(f"{path}: {path.resolve().parent} is not a directory")
    if not os.access(path.resolve().parent, os.W_OK):
        raise typer.BadParameter(f"{path}: Permission denied")


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
RequestOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The request, or its changes, as JSON; - reads standard input. Options replace its"
        " fields.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show no progress; errors are shown.")
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write the result to this file, at once when it is there, not to standard output.",
    ),
]
NoWaitOption = Annotated[
    bool, typer.Option("--no-wait", help="Do not wait for the end: print the id.")
]
NoTextsOption = Annotated[
    bool, typer.Option("--no-texts", help="Do not show texts while they are written.")
]
