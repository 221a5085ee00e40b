"""Logs: one line per event, as JSON for programs or as text for people.

An event is a message with fields: `log.info("refinement ended", extra={"calls": 8})`. No text of a
user and no secret is logged: neither as a field nor in the message of an exception.
"""

import logging
import os
import re
import sys
import traceback
from contextlib import AbstractContextManager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from pythonjsonlogger.json import JsonEncoder

from app.telemetry.traces import current_span

Formats = Literal["auto", "json", "text"]

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request that is being answered, which stands on every line about it."""

ACCEPTED = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
LONGEST_REASON = 200
REPEATED_AFTER_S = 60.0
MOST_KINDS = 1_000
"""Kinds of warnings that are remembered."""

OWN = frozenset(
    {*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName", "color_message"}
)
"""Attributes of every record; the others are fields of the event."""

QUIET = ("asyncio", "aiohttp", "httpx", "httpcore")
"""Libraries that say more than an operator wants to know."""


def safe_request_id(given: bytes | None) -> str:
    """Return the id that a client gave to its request, or a new one if it has other characters."""
    if given is not None and ACCEPTED.fullmatch(given):
        return given.decode()
    return f"req_{os.urandom(8).hex()}"


class _AboutRequest:
    """What `about_request` returns; a context manager made of a generator takes longer."""

    __slots__ = ("_before", "_known_as")

    def __init__(self, known_as: str | None) -> None:
        self._known_as = known_as

    def __enter__(self) -> None:
        self._before = request_id.set(self._known_as)

    def __exit__(self, *_: object) -> None:
        request_id.reset(self._before)


def about_request(known_as: str | None) -> AbstractContextManager[None]:
    """Let lines be about a request until the context ends, such as what was submitted by it."""
    return _AboutRequest(known_as)


def configure_logs(
    process: str, form: Formats = "auto", level: str = "info", out: TextIO | None = None
) -> None:
    """Log to a stream, standard error by default; `process` is on every line of JSON.

    `auto` is text on a terminal, else JSON.
    """
    # No line shows the thread or the process by which it was written.
    logging.logThreads = logging.logMultiprocessing = False
    out = out or sys.stderr
    as_text = form == "text" or (form == "auto" and out.isatty())
    handler = logging.StreamHandler(out)
    handler.setFormatter(_Text() if as_text else _Json(process))
    handler.addFilter(_OncePerOutage())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.root.level))


class _OncePerOutage(logging.Filter):
    """Lets a warning with an error of Redis pass once a minute, with how many alike went not.

    Each loop of a process tries again several times a second, and says so. Warnings about another
    subject, such as another cell, and errors, such as what is not in the audit log, all pass.
    """

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[object, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        arguments = record.args if isinstance(record.args, tuple) else ()
        errors = [each for each in arguments if isinstance(each, Exception)]
        cause = errors[-1].__cause__ or errors[-1] if errors else None
        # By the names of modules, since to import redis takes longer than many commands.
        modules = {each.__module__ for each in type(cause).__mro__}
        is_of_redis = isinstance(cause, OSError) or "redis.exceptions" in modules
        if record.levelno > logging.WARNING or not is_of_redis:
            return True
        subject = tuple(each for each in arguments if isinstance(each, str | int))
        kind = record.name, record.msg, subject, type(cause)
        if len(self._passed) > MOST_KINDS:
            self._passed.clear()
        passed_at, repeated = self._passed.get(kind, (float("-inf"), 0))
        if record.created < passed_at + REPEATED_AFTER_S:
            self._passed[kind] = passed_at, repeated + 1
            return False
        self._passed[kind] = record.created, 0
        record.repeated = repeated or None
        return True


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    found = {
        name: value
        for name, value in record.__dict__.items()
        if name not in OWN and value is not None
    }
    if (about := request_id.get()) is not None:
        found.setdefault("request_id", about)
    if (place := current_span().context) is not None:
        found["trace_id"] = place.trace_id
    return found


def _trace(error: BaseException) -> str:
    """Return the stack and kind of an exception and its causes, and messages that are short.

    The message of a validation error contains the validated value; other messages may.
    """
    lines: list[str] = []
    seen: BaseException | None = error
    while seen is not None:
        lines += traceback.format_tb(seen.__traceback__)
        message = str(seen)
        is_shown = len(message) <= LONGEST_REASON and not hasattr(seen, "errors")
        lines.append(f"{type(seen).__qualname__}{f': {message}' if is_shown and message else ''}\n")
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return "".join(lines).rstrip()


class _Text(logging.Formatter):
    """`12:00:00 WARNING workers.play[pid]: message  refinement=ref_... model=...`."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        fields = "".join(f" {name}={_word(value)}" for name, value in _fields(record).items())
        origin = f"{record.name}[{record.process}]"
        line = f"{at} {record.levelname} {origin}: {record.getMessage()}{fields}"
        error = record.exc_info[1] if record.exc_info else None
        return line if error is None else f"{line}\n{_trace(error)}"


def _word(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return repr(text) if re.search(r"[\s\"'=]", text) or not text else text


class _Json(logging.Formatter):
    """One object per line: `time`, `level`, `process`, `logger`, `message` and the fields."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process
        self._encode = JsonEncoder().encode

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "process": self._process,
            "pid": record.process,
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info and record.exc_info[1] is not None:
            fields["exception"] = _trace(record.exc_info[1])
        return self._encode(fields)
