"""python -m workers.validators.check_process_main CPU_SECONDS: what `CheckProcess` runs.

It answers each line of JSON with a line of JSON until its standard input ends: what was found, why
the validator cannot run, or how the check failed. It ends silently if the worker dies.
"""

import json
import logging
import os
import sys
from dataclasses import asdict
from functools import lru_cache, partial
from traceback import format_exception
from typing import Any

from pydantic import TypeAdapter

from app.contract.requests import ContextDocument
from app.contract.validators import AnyValidator
from workers.children.child_process import OutOfTime, answer_lines, cpu_limit
from workers.text.edits import Edit
from workers.validators import check_of, corrections, first_findings, said_of_check
from workers.validators.check_process import allowed_times, too_expensive
from workers.validators.violation import (
    CheckFailed,
    Measurement,
    ValidatorUnavailable,
    Violation,
)

MEMORY_BYTES = 1 << 30
IMPORT_S = 20.0
VALIDATOR: TypeAdapter[AnyValidator] = TypeAdapter(AnyValidator)


def main() -> None:
    """Answer requests until standard input ends."""
    answer_lines(partial(_answer, float(sys.argv[1])), MEMORY_BYTES)


def _answer(cpu_s: float, line: bytes) -> dict[str, Any]:
    try:
        return {"found": [asdict(found) for found in _found(line, cpu_s)]}
    except ValidatorUnavailable as failure:
        return {"unavailable": failure.detail}
    except CheckFailed as failure:
        return {"failed": str(failure), "at": "".join(format_exception(failure))}


def _found(line: bytes, cpu_s: float) -> tuple[Violation | Measurement | Edit, ...]:
    request = json.loads(line)
    validator, draft = _parsed(request["validator"]), request["draft"]
    documents = [ContextDocument.model_construct(**fields) for fields in request["documents"]]
    # The seconds that a first import may take are not counted against a draft.
    with cpu_limit(IMPORT_S), said_of_check():
        check_of(validator.family(), validator.kind)
    fixes = request["does"] == "fix"
    try:
        with cpu_limit(cpu_s * allowed_times(draft)):
            if fixes:
                return corrections(validator, draft)
            return first_findings(validator, draft, documents)
    except (OutOfTime, MemoryError):
        return () if fixes else (too_expensive(validator.kind),)


@lru_cache(maxsize=256)
def _parsed(validator: str) -> AnyValidator:
    return VALIDATOR.validate_json(validator)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        os._exit(0)  # the interpreter would say that it cannot flush
    except Exception:
        # Imported late: a process starts for most checks, and fails in none.
        from app.telemetry import configure_logs

        configure_logs("checks")
        logging.getLogger("workers.validators").exception("a check failed")
        sys.exit(1)
