"""ruff, run as the program it is, on code that may be hostile: it is parsed, never run."""

import json
import resource
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ruff import find_ruff_bin  # type: ignore[import-untyped]

from workers.validators.unavailable import ValidatorUnavailable

CPU_S = 1
WALL_S = 10.0
SYNTAX = "invalid-syntax"

Place = tuple[int, int]
"""Line and column, from 1."""


class Refused(Exception):
    """ruff cannot read this code, or needs too much for it; the text says which."""


@dataclass(frozen=True, slots=True)
class Remark:
    """What ruff says about one place; `code` is None for an error of syntax."""

    code: str | None
    message: str
    fix: str | None
    start: Place
    end: Place


def remarks(code: str, version: str, rules: Sequence[str]) -> tuple[Remark, ...]:
    """Return what ruff says about code for a version such as `3.11`, in order.

    Comments that silence it are ignored. Raises `Refused`, and `ValidatorUnavailable` for a rule
    that ruff does not know.
    """
    try:
        ran = subprocess.run(  # noqa: S603
            [*_command(version, rules), "-"],
            input=code.encode(),
            capture_output=True,
            check=False,
            timeout=WALL_S,
            env={"RAYON_NUM_THREADS": "1"},
            # Of all the processes here only the one aside runs checks, and it has no threads.
            preexec_fn=_limit,
        )
    except subprocess.TimeoutExpired:
        raise Refused("ruff needs too long for it") from None
    if ran.returncode == 2:
        said = " ".join(ran.stderr.decode(errors="replace").split())
        raise ValidatorUnavailable(f"ruff cannot be run as the validator asks: {said[:300]}")
    if ran.returncode:
        raise Refused("it is nested too deeply, or too long")
    return tuple(_remark(each) for each in json.loads(ran.stdout))


def _command(version: str, rules: Sequence[str]) -> list[str]:
    return [
        find_ruff_bin(),
        "check",
        "--isolated",
        "--no-cache",
        "--no-fix",
        "--ignore-noqa",
        "--exit-zero",
        "--quiet",
        "--output-format=json",
        "--stdin-filename=draft.py",
        f"--target-version=py{version.replace('.', '')}",
        f"--select={','.join(rules)}",
    ]


def _remark(found: dict[str, Any]) -> Remark:
    code = found["code"]
    start, end = found["location"], found["end_location"]
    return Remark(
        code=None if code == SYNTAX else code,
        message=found["message"],
        fix=found["fix"]["message"] if found["fix"] else None,
        start=(start["row"], start["column"]),
        end=(end["row"], end["column"]),
    )


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
