"""The process of the draft: it imports the draft, and does with its objects what the tests ask.

It is given the draft and never the tests. It reads `{"draft", "channel", "limits"}` from standard
input; `channel` is the descriptor of its socket to the process that judges.
"""

import builtins
import io
import json
import os
import resource
import sys
import traceback
import types
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from workers.validators.sandboxed.exchange import Peer
from workers.validators.sandboxed.shared_files import SharedFiles

HERE = "/tmp"  # noqa: S108 - the sandbox's own, empty at its start
SOURCE = f"{HERE}/draft.py"
SLICE_S = 0.005
FUNCTIONS = (types.FunctionType, types.MethodType)


class Printed(io.TextIOBase):
    """Standard output or error of the draft: it goes along with the next message."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Keep the text."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self.text.append(text)
        return len(text)

    def taken(self) -> str:
        """Return what has been written since the last time."""
        text, self.text = "".join(self.text), []
        return text


class Asked(io.TextIOBase):
    """Standard input of the draft: that of the tests."""

    def __init__(self, peer: Peer) -> None:
        super().__init__()
        self._peer = peer

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int | None = -1) -> str:
        """Read from the standard input of the tests."""
        return str(self._peer.request("stdin", "read", -1 if size is None else size))

    def readline(self, size: int | None = -1) -> str:  # type: ignore[override]
        """Read a line from the standard input of the tests."""
        return str(self._peer.request("stdin", "readline", -1 if size is None else size))

    def __iter__(self) -> Iterator[str]:  # type: ignore[override]
        while line := self.readline():
            yield line


class DraftServer(Peer):
    """Serves the draft to the process that judges it."""

    def __init__(self, channel: int) -> None:
        reader, writer = os.fdopen(channel, "rb"), os.fdopen(os.dup(channel), "wb")
        super().__init__(reader, writer, 1, is_strict=False)
        self._out, self._errors = Printed(), Printed()
        self._files = SharedFiles(HERE)
        self._loop: Any = None
        sys.stdin, sys.stdout, sys.stderr = Asked(self), self._out, self._errors
        builtins.input = lambda prompt="": self.request("input", str(prompt))

    def perform(self, does: str, args: tuple[Any, ...]) -> Any:
        """Do what the tests ask."""
        if does == "import":
            (name,) = args
            return import_module(name)
        if does == "again":
            sys.modules.pop("draft", None)
            return import_module("draft")
        if does == "run":
            module, name, given, named = args
            return getattr(import_module(module), name)(*given, **dict(named))
        if does == "evaluate":
            return _evaluated(*args)
        if does == "get" and args[1] == "__signature__" and isinstance(args[0], FUNCTIONS):
            return import_module("inspect").signature(args[0])
        return super().perform(does, args)

    def attached(self) -> dict[str, Any]:
        """Return what the draft has printed, and the files that it has changed."""
        made: dict[str, Any] = {"out": self._out.taken(), "errors": self._errors.taken()}
        made["files"] = self._files.changed()
        return {name: it for name, it in made.items() if it}

    def take(self, attached: dict[str, Any]) -> None:
        """Change the files that the tests have changed."""
        self._files.apply(attached.get("files", []))

    def line_of(self, error: BaseException) -> int | None:
        """Return the last line of the draft that an error went through."""
        if isinstance(error, SyntaxError) and error.filename == SOURCE:
            return error.lineno
        found = traceback.walk_tb(error.__traceback__)
        lines = [line for frame, line in found if frame.f_code.co_filename == SOURCE]
        return lines[-1] if lines else None

    def loop(self) -> Any:
        """Return the event loop of the draft, which runs only while the tests await it."""
        if self._loop is None:
            self._loop = import_module("asyncio").new_event_loop()
        return self._loop

    def advance(self, task: Any) -> None:
        """Let the event loop run until the task is done, for some milliseconds at most."""
        loop = self.loop()
        if not loop.is_running():
            loop.run_until_complete(import_module("asyncio").wait([task], timeout=SLICE_S))


def _evaluated(how: str, source: str, names: dict[str, Any]) -> Any:
    draft = sys.modules.get("draft")
    known = {**(vars(draft) if isinstance(draft, types.ModuleType) else {}), **names}
    return eval(source, known) if how == "eval" else exec(source, known)  # noqa: S102, S307


def limit(limits: dict[str, int]) -> None:
    """Set the limits of this process and of those that it starts."""
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))


def detached() -> Any:
    """Return what was standard output, and connect the standard streams to nothing."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    return answers


def main() -> None:
    """Serve the draft until the tests are done."""
    asked = json.load(sys.stdin)
    answers = detached()
    limit(asked["limits"])
    with open(SOURCE, "w", encoding="utf-8") as out:  # noqa: PTH123
        out.write(asked["draft"])
    sys.path.insert(0, HERE)
    server = DraftServer(asked["channel"])
    answers.write("ready\n")
    answers.close()
    server.serve()
    os._exit(0)  # without waiting for threads and exit handlers of the draft


if __name__ == "__main__":
    main()
