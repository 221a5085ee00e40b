"""A separate process for checks that may take long, so that none blocks the event loop.

No count of schema nodes or pattern states limits the cost of a hostile schema or pattern, but a
process can be interrupted at any point. Within the process a timer of `CPU_S` interrupts Python,
the kernel's limits end C code and excessive use of memory (`check_process_main`), and `WALL_S` is
for a process that gets no CPU time.
"""

import atexit
import json
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Self

from app.contract.drafts import MAX_TEXT
from app.contract.validators import AnyValidator
from workers.children.child_process import ChildProcess, cpu_time_s
from workers.children.turns import Turns
from workers.text.edits import Edit
from workers.validators import Documents
from workers.validators.violation import (
    HIDES_OTHERS,
    CheckFailed,
    Measurement,
    ValidatorUnavailable,
    Violation,
)

CPU_S = 0.5
QUICK_S = 0.1
"""CPU time of a check in the process that all share; what needs more is checked apart."""

WALL_S = 20.0


class CheckProcess:
    """Runs one check at a time; its process starts with the first check, and again if it dies.

    In front of it `turns` are to be taken.
    """

    def __init__(self, cpu_s: float = CPU_S) -> None:
        self.turns = Turns()
        self.used_s = 0.0
        """CPU time of all checks so far; what is lost with a process that dies counts in full."""

        self._cpu_s = cpu_s
        self._child = ChildProcess(
            "workers.validators.check_process_main", str(cpu_s), wall_s=WALL_S
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="validators")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The id of the process, or None if none runs."""
        return self._child.pid

    @property
    def executor(self) -> ThreadPoolExecutor:
        """The thread in which `check` must be called."""
        return self._thread

    def check(
        self, validator: AnyValidator, draft: str, documents: Documents = ()
    ) -> tuple[Violation | Measurement, ...]:
        """Return what the check finds in the draft, or that it is too expensive.

        Raises `ValidatorUnavailable` and `CheckFailed`.
        """
        found = self._found("check", validator, draft, documents)
        if found is None:
            return (too_expensive(validator.kind),)
        return tuple(
            Measurement(**each) if "score" in each else Violation(**each) for each in found
        )

    def fix(self, validator: AnyValidator, draft: str) -> tuple[Edit, ...]:
        """Return the corrections that the validator knows; none if that is too expensive.

        Raises `ValidatorUnavailable` and `CheckFailed`.
        """
        found = self._found("fix", validator, draft, ())
        return tuple(Edit(**each) for each in found or ())

    def _found(
        self, does: str, validator: AnyValidator, draft: str, documents: Documents
    ) -> list[dict[str, Any]] | None:
        """Return what the process finds; None if it takes too long or dies."""
        asked = json.dumps(
            {
                "does": does,
                "validator": validator.model_dump_json(by_alias=True),
                "draft": draft,
                "documents": [each.model_dump() for each in documents],
            }
        )
        times = allowed_times(draft)
        for _ in range(2):
            started = time.monotonic()
            before = cpu_time_s(self._child.pid) if self._child.pid else 0.0
            if reply := self._child.ask(asked.encode(), times):
                assert self._child.pid
                self.used_s += cpu_time_s(self._child.pid) - before
                return _found_in(json.loads(reply))
            self.used_s += times * self._cpu_s
            if time.monotonic() - started >= times * self._cpu_s:
                break
        return None

    def close(self) -> None:
        """End the process, and with it a check that is running."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._child.close()


def _found_in(reply: dict[str, Any]) -> list[dict[str, Any]]:
    if "unavailable" in reply:
        raise ValidatorUnavailable(reply["unavailable"])
    if "failed" in reply:
        failure = CheckFailed(reply["failed"])
        failure.add_note(reply["at"])
        raise failure
    found: list[dict[str, Any]] = reply["found"]
    return found


def allowed_times(draft: str) -> float:
    """Return how many times the CPU time of other drafts a check of this one has, if it is long."""
    return max(1.0, len(draft) / MAX_TEXT)


def too_expensive(kind: str) -> Violation:
    """Return the violation of a draft that could not be checked within the limits."""
    return Violation(
        f"could not be checked: this {kind} validator needs more than {CPU_S:g} s, or that for each"
        f" {MAX_TEXT} characters, or too much memory for this draft",
        "simplify the validator, or shorten the draft",
        weight=HIDES_OTHERS,
        skipped=True,
    )


@cache
def shared_check_process(*, is_slow: bool = False) -> CheckProcess:
    """Return a check process of this process: for quick checks, or for checks that take long.

    They end together with this process.
    """
    check_process = CheckProcess(CPU_S if is_slow else QUICK_S)
    atexit.register(check_process.close)
    return check_process
