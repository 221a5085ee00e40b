"""A separate process for checks that may take long, so that none blocks the event loop.

No count of schema nodes or pattern states limits the cost of a hostile schema or pattern, but a
process can be interrupted at any point. Within the process a timer of `CPU_S` interrupts Python,
the kernel's limits end C code and excessive use of memory (`check_process_main`), and `WALL_S` is
for a process that gets no CPU time.
"""

import atexit
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Self

from app.contract.requests import ContextDocument
from app.contract.validators import AnyValidator
from workers.text.edits import Edit
from workers.validators.violation import HIDES_OTHERS, ValidatorUnavailable, Violation

CPU_S = 0.5
WALL_S = 20.0
ROOT = Path(__file__).parent.parent.parent

Documents = Sequence[ContextDocument]


class CheckProcess:
    """Runs one check at a time; its process starts with the first check, and again if it dies."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="validators")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def executor(self) -> ThreadPoolExecutor:
        """The thread in which `check` must be called."""
        return self._thread

    def check(
        self, validator: AnyValidator, draft: str, documents: Documents = ()
    ) -> tuple[Violation, ...]:
        """Return the violations of the draft, or one that says the check is too expensive.

        Raises `ValidatorUnavailable`.
        """
        reply = self._answer("check", validator, draft, documents)
        if reply is None:
            return (too_expensive(validator.kind),)
        if isinstance(reply, str):
            raise ValidatorUnavailable(reply)
        return tuple(Violation(**each) for each in reply)

    def fix(self, validator: AnyValidator, draft: str) -> tuple[Edit, ...]:
        """Return the corrections that the validator knows; none if that is too expensive."""
        reply = self._answer("fix", validator, draft, ())
        return () if not isinstance(reply, list) else tuple(Edit(**each) for each in reply)

    def _answer(self, does: str, validator: AnyValidator, draft: str, documents: Documents) -> Any:
        """Return what the process says; None if it takes too long or dies."""
        asked = json.dumps(
            {
                "does": does,
                "validator": validator.model_dump_json(by_alias=True),
                "draft": draft,
                "documents": [each.model_dump() for each in documents],
            }
        )
        for _ in range(2):
            started = time.monotonic()
            if reply := self._ask(asked.encode()):
                return json.loads(reply)
            if time.monotonic() - started >= CPU_S:
                break
        return None

    def close(self) -> None:
        """End the process, and with it a check that is running."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._end()

    def _ask(self, line: bytes) -> bytes:
        process = self._process = self._process or _started()
        assert process.stdin
        assert process.stdout
        out_of_time = threading.Timer(WALL_S, process.kill)
        out_of_time.start()
        try:
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            reply = process.stdout.readline()
        except OSError:
            reply = b""
        finally:
            out_of_time.cancel()
        if not reply.endswith(b"\n"):
            self._end()
            return b""
        return reply

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            try:
                if pipe:
                    pipe.close()
            except OSError:
                pass


def too_expensive(kind: str) -> Violation:
    """Return the violation of a draft that could not be checked within the limits."""
    return Violation(
        f"could not be checked: this {kind} validator needs more than {CPU_S:g} s or too much "
        "memory for this draft",
        "simplify the validator, or shorten the draft",
        weight=HIDES_OTHERS,
        skipped=True,
    )


@cache
def shared() -> CheckProcess:
    """Return the check process of this process; both end together."""
    check_process = CheckProcess()
    atexit.register(check_process.close)
    return check_process


INHERITED = (
    "PATH",
    "LD_LIBRARY_PATH",
    "VIRTUAL_ENV",
    "HOME",
    "TMPDIR",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
)


def environment(of: Mapping[str, str]) -> dict[str, str]:
    """Return what the check process is given of an environment: no keys and no passwords."""
    path = os.pathsep.join(filter(None, (str(ROOT), of.get("PYTHONPATH"))))
    kept = {name: of[name] for name in INHERITED if name in of}
    # A fixed hash seed: which violations come first must not depend on the order of a set.
    return kept | {"PYTHONPATH": path, "PYTHONHASHSEED": "0"}


def _started() -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "workers.validators.check_process_main", str(CPU_S)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(os.environ),
    )
