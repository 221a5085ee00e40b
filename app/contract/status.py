"""The statuses of a refinement, every legal move between them, and what commands do in each.

A move that the table does not list is rejected. Work ends with a terminal status; a retry, the only
move out of one, lets a failed refinement go on from its journal.
"""

from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import ValidationError, ValidatorFunctionWrapHandler, WrapValidator


class Status(StrEnum):
    """The status of a refinement."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    CANCELING = "canceling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_terminal(self) -> bool:
        """True if work ends with it."""
        return self in TERMINAL


MOVES: dict[Status, frozenset[Status]] = {
    Status.QUEUED: frozenset({Status.RUNNING, Status.FAILED, Status.CANCELED}),
    Status.RUNNING: frozenset(
        {Status.PAUSED, Status.SUCCEEDED, Status.FAILED, Status.CANCELING},
    ),
    Status.PAUSED: frozenset({Status.QUEUED, Status.CANCELED}),
    Status.CANCELING: frozenset({Status.CANCELED}),
    Status.SUCCEEDED: frozenset(),
    Status.FAILED: frozenset({Status.QUEUED}),
    Status.CANCELED: frozenset(),
}

TERMINAL = frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELED})


COMMANDS = """
        queued    running   paused    canceling  succeeded  failed    canceled
cancel  ACTS      ACTS      ACTS      DONE       ENDED      ENDED     DONE
finish  ACTS      ACTS      ACTS      ENDED      ENDED      ENDED     ENDED
pause   ACTS      ACTS      ACTS      ENDED      ENDED      ENDED     ENDED
change  ACTS      ACTS      ACTS      ENDED      ENDED      ENDED     ENDED
review  UNASKED   UNASKED   ACTS      ENDED      ENDED      ENDED     ENDED
rate    ACTS      ACTS      ACTS      ACTS       ACTS       ACTS      ACTS
retry   UNFAILED  UNFAILED  UNFAILED  UNFAILED   UNFAILED   ACTS      UNFAILED
"""
"""What a command does in a status: it acts, it is accepted and nothing is left to do, or why it is
refused. It may be refused for other reasons where it acts."""


def verdicts() -> dict[tuple[str, str], str]:
    """Return the table of commands: what a command does in a status, by both."""
    statuses, *rows = (line.split() for line in COMMANDS.strip().splitlines())
    return {
        (command, status): verdict
        for command, *row in rows
        for status, verdict in zip(statuses, row, strict=True)
    }


class StopReason(StrEnum):
    """The reason why a refinement ended. `canceled` and `error` belong to those statuses alone."""

    THRESHOLD_MET = "threshold_met"
    VALIDATORS_PASSED = "validators_passed"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    """It ended, and something that was asked for was not done: see the result's caveats."""
    MAX_ITERATIONS = "max_iterations"
    PLATEAU = "plateau"
    STABLE = "stable"
    OSCILLATING = "oscillating"
    BUDGET_EXHAUSTED = "budget_exhausted"
    DEADLINE = "deadline"
    FINISHED_EARLY = "finished_early"
    APPROVED = "approved"
    REJECTED = "rejected"
    CANCELED = "canceled"
    ERROR = "error"


Member = TypeVar("Member", bound=StrEnum)


def later(kind: type[Member], value: str) -> Member:
    """Return a member for a value of a later release: it equals no member of this one."""
    member = str.__new__(kind, value)
    member._name_, member._value_ = value.upper(), value
    return member


def or_later(kind: type[Member]) -> WrapValidator:
    def read(value: Any, known: ValidatorFunctionWrapHandler) -> Any:
        try:
            return known(value)
        except ValidationError:
            if not isinstance(value, str):
                raise
            return later(kind, value)

    return WrapValidator(read)


StoredStatus = Annotated[Status, or_later(Status)]
"""A status as stored: one that a later release added is kept as it is, and is not terminal."""

StoredReason = Annotated[StopReason, or_later(StopReason)]
"""A stop reason as stored: one that a later release added is kept as it is."""
