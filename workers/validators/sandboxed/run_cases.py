"""Runs a draft on inputs, each in a process of its own, and reports what it answers.

Nothing in the sandbox knows what is expected.
"""

import asyncio
import inspect
import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

MOST = 4_096
"""Bytes of a traceback that are read."""


def called(function: str, given: Any) -> Any:
    """Return what a function of the draft returns, or what it raises, as JSON."""
    try:
        call = getattr(import_module("draft"), function)
        value = call(**given) if isinstance(given, dict) else call(*given)
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
    except BaseException as error:  # noqa: BLE001 - whatever the draft raises
        return json.dumps(failed_case(error))
    try:
        return json.dumps({"returned": value})
    except (TypeError, ValueError, RecursionError) as error:
        return json.dumps({"error": f"returned what is no JSON: {error}"})


def failed_case(error: BaseException) -> dict[str, Any]:
    """Return an error, its class and the nearest built-in one, and its line in the draft."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename.endswith("/draft.py")]
    if isinstance(error, SyntaxError) and str(error.filename).endswith("/draft.py"):
        lines.append(error.lineno)
    own, *others = type(error).__mro__
    return {
        "raised": [
            own.__name__,
            *[ancestor.__name__ for ancestor in others if ancestor.__module__ == "builtins"][:1],
        ],
        "error": "".join(traceback.format_exception_only(error)[-1:]).strip(),
        "line": lines[-1] if lines else None,
    }


def write_answers(function: str | None, given: Any, answers: Any, errors: Any) -> None:
    """Write what the draft answers: in a process that ends with it."""
    os.setsid()
    if function is not None:
        os.write(answers.fileno(), called(function, given).encode())
        return
    with tempfile.TemporaryFile() as file:
        file.write(given.encode())
        file.seek(0)
        for stream, source in enumerate((file, answers, errors)):
            os.dup2(source.fileno(), stream)
    python = [sys.executable, "-I", "-S", "-B", "-X", "utf8", "draft.py"]
    os.execv(python[0], python)  # noqa: S606


def begin_anew(draft: str) -> None:
    """Leave nothing but the draft in the working directory."""
    for entry in os.scandir():
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)  # noqa: PTH108
    with open("draft.py", "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(draft)


def file_part(file: Any, most: int, *, is_end: bool = False) -> str:
    """Return the beginning or the end of what was written to a file."""
    file.seek(max(0, os.fstat(file.fileno()).st_size - most) if is_end else 0)
    return str(file.read(most).decode(errors="replace"))


def main(asked: dict[str, Any], report: Callable[[Any], None], channel: int) -> None:
    """Run the draft on each of `asked["inputs"]`."""
    for given in asked["inputs"]:
        begin_anew(asked["draft"])
        with tempfile.TemporaryFile() as answers, tempfile.TemporaryFile() as errors:
            pid = os.fork()
            if not pid:
                try:
                    os.close(channel)
                    write_answers(asked["function"], given, answers, errors)
                finally:
                    os._exit(0)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            said, errors_said = (
                file_part(answers, asked["most"]),
                file_part(errors, MOST, is_end=True),
            )
            report({"status": status, "answer": said, "errors": errors_said})
