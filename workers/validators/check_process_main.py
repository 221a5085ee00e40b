"""python -m workers.validators.check_process_main CPU_SECONDS: what `CheckProcess` runs.

It answers each line of JSON with a line of JSON until its standard input ends: violations,
corrections, or a string that says why the validator cannot run. It ignores Ctrl-C, which the
terminal sends to every process of the group: its worker decides when it ends.
"""

import json
import resource
import signal
import sys
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter

from app.contract.requests import ContextDocument
from app.contract.validators import AnyValidator
from workers.text.edits import Edit
from workers.validators import check_of, corrections, violations
from workers.validators.check_process import too_expensive
from workers.validators.violation import ValidatorUnavailable, Violation

MEMORY_BYTES = 1 << 30
IMPORT_S = 20.0
VALIDATOR: TypeAdapter[AnyValidator] = TypeAdapter(AnyValidator)


class OutOfTime(BaseException):
    """Raised at any point of the code when the CPU time of a check is used up."""


def main() -> None:
    """Answer requests until standard input ends."""
    cpu_s = float(sys.argv[1])
    _limit_memory()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, _out_of_time)
    for line in sys.stdin.buffer:
        said: list[dict[str, Any]] | str
        try:
            said = [asdict(each) for each in _answer(line, cpu_s)]
        except ValidatorUnavailable as failure:
            said = failure.detail
        sys.stdout.buffer.write(json.dumps(said).encode() + b"\n")
        sys.stdout.buffer.flush()


def _answer(line: bytes, cpu_s: float) -> tuple[Violation | Edit, ...]:
    asked = json.loads(line)
    validator = _parsed(asked["validator"])
    documents = [ContextDocument.model_construct(**each) for each in asked["documents"]]
    # The seconds that a first import may take are not counted against a draft.
    _limit_cpu(IMPORT_S)
    check_of(validator.family(), validator.kind)
    fixes = asked["does"] == "fix"
    try:
        try:
            _limit_cpu(cpu_s)
            if fixes:
                return tuple(corrections(validator, asked["draft"]))
            return tuple(violations(validator, asked["draft"], documents))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except (OutOfTime, MemoryError):
        return () if fixes else (too_expensive(validator.kind),)


@lru_cache(maxsize=256)
def _parsed(validator: str) -> AnyValidator:
    return VALIDATOR.validate_json(validator)


def _limit_cpu(cpu_s: float) -> None:
    """Raise `OutOfTime` after `cpu_s`; die a second later if C code prevents that."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    at_most = int(used.ru_utime + used.ru_stime + cpu_s) + 1
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (at_most, hard))
    signal.setitimer(signal.ITIMER_PROF, cpu_s)


def _limit_memory() -> None:
    # Not every system has these limits; the time limit holds everywhere.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _out_of_time(signum: int, frame: object) -> None:
    raise OutOfTime


if __name__ == "__main__":
    main()
