"""The command line application, and what its commands share: exit codes, options, output.

Standard output has results alone; progress, questions and errors are on standard error.
"""

import json
import math
import os
import re
import secrets
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from importlib.metadata import EntryPoint, version
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from pydantic import ValidationError
from rich.console import Console
from typer.core import TyperGroup
from typer.main import get_command

from app.cli.contract_client import CliError
from app.cli.display import plain_text, say
from app.contract.invalid_values import in_one, sentence_of
from app.contract.plugins import PluginFailed, blaming, installed, missing_requirements
from app.contract.reviews import ReviewWhen
from app.local.embedded import EmbeddedRedisError, RedisNotFound
from app.settings import InvalidSettings, Settings, read_environment
from hone import HoneError

COMMANDS = "hone.commands"
"""The entry points of commands that installed packages add."""

NOT_PASSED = 3
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
CUT_OFF = 141  # 128 + SIGPIPE
TERMINATED = 143  # 128 + SIGTERM

EXIT_CODES = (
    "Exit codes: 0 success, and where a refinement is waited for, it passed; 1 an error, which"
    " standard error explains; 2 wrong usage; 3 the refinement has another outcome (`best_effort`,"
    " `failed`, `canceled`), or not all of a batch passed; 130 interrupted by Ctrl-C; 141 the"
    " reader of the output ended early, as `head` does; 143 ended by SIGTERM."
)


class Terminated(KeyboardInterrupt):
    """SIGTERM was received."""


@contextmanager
def interruptible(*advice: str) -> Iterator[None]:
    """Print advice after Ctrl-C and SIGTERM, since the server continues, and exit."""

    def terminate(_number: int, _frame: object) -> None:
        raise Terminated

    before = signal.getsignal(signal.SIGTERM)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except KeyboardInterrupt as interrupt:
        for line in ("", *advice):
            say(errors(), line)
        code = TERMINATED if isinstance(interrupt, Terminated) else INTERRUPTED
        raise typer.Exit(code) from None
    finally:
        signal.signal(signal.SIGTERM, before)


class HoneGroup(TyperGroup):
    """Prints an expected error once, and exits with its code. Options are finite numbers."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command: Any = super().get_command(ctx, cmd_name)
        for param in command.params if command else ():
            param.callback = param.callback or _finite
        return command

    def invoke(self, ctx: Any) -> Any:
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except typer.BadParameter as error:
            if isinstance(invalid := error.__cause__, ValidationError):
                error.message = in_one(map(sentence_of, invalid.errors()))
            raise
        except (CliError, HoneError, PluginFailed, RedisNotFound, EmbeddedRedisError) as error:
            _fail(str(error), 1)
        except BrokenPipeError:
            _discard_output()
            raise typer.Exit(CUT_OFF) from None
        except OSError as error:
            _fail(f"{error.filename or 'standard output'}: {error.strerror or error}", 1)
        except UnicodeEncodeError as error:
            wrong = ascii(error.object[error.start : error.end])
            if error.encoding == "utf-8":
                _fail(f"{wrong}, in an option or a file, is not UTF-8 text: nothing was sent", 2)
            _fail(f"the output cannot be written: {wrong} is not {error.encoding}", 1)


class RootGroup(HoneGroup):
    """The commands of Hone, and those that installed packages add."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, those of installed packages last."""
        own = super().list_commands(ctx)
        return [*own, *sorted(installed(COMMANDS).names - {*own})]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        own = super().get_command(ctx, cmd_name)
        return _added_command(cmd_name, is_taken=own is not None) or own

    def invoke(self, ctx: Any) -> Any:
        """Say how to install an extra of which something is missing."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError:
            entry = _entry_of(ctx.invoked_subcommand)
            if not (missing := [*missing_requirements(entry)] if entry else []):
                raise
            install = shlex.join([sys.executable, "-m", "pip", "install", *missing])
            _fail(f"hone {ctx.invoked_subcommand} is an extra; to install it: {install}", 1)


def _entry_of(command: str | None) -> EntryPoint | None:
    return next((entry for entry in installed(COMMANDS) if entry.name == command), None)


def _added_command(name: str, *, is_taken: bool) -> Any:
    """Return the command that an installed package adds; None if there is none.

    A command that cannot be loaded fails when a user calls it; the others work.
    """
    if (entry := _entry_of(name)) is None:
        return None
    try:
        if is_taken or len(installed(COMMANDS).select(name=name)) > 1:
            return _failing(name, PluginFailed(entry, "choose another name: this one is taken"))
        with blaming(entry):
            loaded = entry.load()
            return get_command(loaded) if isinstance(loaded, typer.Typer) else _alone(name, loaded)
    except PluginFailed as failed:
        return _failing(name, failed)


def _alone(name: str, function: Callable[..., Any], described: str | None = None) -> Any:
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name, help=described)(function)
    return get_command(alone)


def _failing(name: str, error: Exception) -> Any:
    def fail() -> NoReturn:
        raise error

    return _alone(name, fail, "Cannot be loaded.")


def _finite(_context: Any, _option: Any, value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a number with a value.")
    return value


def _fail(message: str, code: int) -> NoReturn:
    _discard_output()
    say(errors(), f"Error: {message}", "red", wraps=True)
    raise typer.Exit(code) from None


def _discard_output() -> None:
    """Drop what standard output cannot take, for Python would try, and fail, again at its exit."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


app = typer.Typer(
    name="hone",
    cls=RootGroup,
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
        return read_environment()
    except InvalidSettings as error:
        raise typer.BadParameter(str(error)) from None


class _Output(Console):
    """Leaves it to `HoneGroup` what follows when the reader has gone."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console() -> Console:
    """Return the console for results: standard output."""
    return _Output(file=sys.stdout)


def errors(*, quiet: bool = False) -> Console:
    """Return the console for progress and errors: standard error. A quiet one prints nothing."""
    return Console(stderr=True, quiet=quiet)


def print_text(text: str) -> None:
    """Print a text to standard output: to the letter, but on a terminal wrapped and made safe."""
    if sys.stdout.isatty():
        console().print(plain_text(text.removesuffix("\n")), highlight=False)
    else:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()


def parse_json(text: str) -> Any:
    """Return the value of a JSON text (RFC 8259); raise ValueError if it is none.

    NaN, infinite numbers, and nesting that is too deep to be read are refused.
    """
    try:
        return json.loads(text, parse_constant=_finite_number, parse_float=_finite_number)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _finite_number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a number with a value")
    return value


def write_file(path: Path, pieces: Iterable[bytes], *, is_secret: bool = False) -> None:
    """Write a file that is whole or as it was before; raise CliError.

    A device, a pipe or an open file, such as /dev/stdout, is written to directly. Other files keep
    their mode; a secret is never in a file that others can read.
    """
    try:
        if (descriptor := _open_file_at(path)) is not None:
            sys.stdout.flush()
            with os.fdopen(os.dup(descriptor), "wb") as file:
                file.writelines(pieces)
            return
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                file.writelines(pieces)
            return
        _replace(path.resolve(), pieces, is_secret=is_secret)
    except OSError as error:
        raise CliError(f"cannot write {path}: {error.strerror}") from error


MOST_LINKS = 40  # as Linux has it


def _open_file_at(path: Path) -> int | None:
    """Return the descriptor that a path such as /dev/stdout or /dev/fd/3 stands for, or None."""
    for _ in range(MOST_LINKS):
        folder = path.parent.resolve()
        is_own = folder in {Path("/proc/self/fd").resolve(), Path("/dev/fd").resolve()}
        if is_own and path.name.isdecimal():
            return int(path.name)
        if not path.is_symlink():
            return None
        path = folder / path.readlink()
    return None


def _replace(path: Path, pieces: Iterable[bytes], *, is_secret: bool) -> None:
    new = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}")
    mode = 0o600 if is_secret else 0o666
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(new, flags, mode), "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        if path.exists() and not is_secret:
            shutil.copymode(path, new)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def check_writable(path: Path | None) -> None:
    """Raise BadParameter if no file can be written there: before anything is paid for."""
    if path is None:
        return
    try:
        if (descriptor := _open_file_at(path)) is not None:
            os.write(descriptor, b"")  # an error if it is closed, or open for reading
            return
        path.stat()
    except FileNotFoundError:
        pass  # it is created
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}") from None
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a directory")
    if path.exists() and not path.is_file():
        if not os.access(path, os.W_OK):
            raise typer.BadParameter(f"{path}: Permission denied")
        return
    if not path.resolve().parent.is_dir():
        raise typer.BadParameter(f"{path}: {path.resolve().parent} is not a directory")
    if not os.access(path.resolve().parent, os.W_OK):
        raise typer.BadParameter(f"{path}: Permission denied")


def parse_refinement_id(text: str) -> str:
    """Return the id; raise BadParameter for what cannot be one."""
    if not re.fullmatch("ref_[0-9A-Za-z]+", text):
        raise typer.BadParameter(f"{text or 'an empty text'} is not the id of a refinement")
    return text


def instant(text: str) -> datetime:
    """Return a time of UTC, such as 2026-01-31 or 2026-01-31T09:30; raise BadParameter."""
    try:
        given = datetime.fromisoformat(text)
        return given.astimezone(UTC) if given.tzinfo else given.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text} is not a time such as 2026-01-31 or 2026-01-31T09:30"
        ) from None


def day(text: str) -> date:
    """Return a date, such as 2026-01-31; raise BadParameter."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text} is not a date such as 2026-01-31") from None


ServerOption = Annotated[
    str | None,
    typer.Option(
        envvar="HONE_SERVER", help="URL of the API.  [default: from HONE_HOST and HONE_PORT]"
    ),
]
RefinementIdArgument = Annotated[
    str, typer.Argument(parser=parse_refinement_id, metavar="ID", help="Id of the refinement.")
]

ThresholdOption = Annotated[float | None, typer.Option(help="Score that is good enough.")]
MaxIterationsOption = Annotated[int | None, typer.Option(help="Maximum number of drafts.")]
ModelOption = Annotated[str | None, typer.Option(help="Model of every role: provider:name.")]


def complete_strategy(incomplete: str) -> list[str]:
    """Return the strategies whose name begins with a text."""
    from app.contract.strategies import STRATEGIES  # noqa: PLC0415 - commands start without it

    return [name for name in STRATEGIES if name.startswith(incomplete)]


StrategyOption = Annotated[
    str | None,
    typer.Option(help="Strategy of the refinement.", autocompletion=complete_strategy),
]
ReviewWhenOption = Annotated[
    ReviewWhen | None,
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
IdempotencyKeyOption = Annotated[
    str | None,
    typer.Option(
        metavar="KEY",
        help="With a key that was used within 24 hours, go on with what it submitted.",
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
