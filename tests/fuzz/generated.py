"""Requests that schemathesis makes up from the OpenAPI document, and what is wrong with answers."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.hooks import ANSWERS, OWN_KEY

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DOCUMENT = ROOT / "openapi" / "openapi.json"
ROUND = 60
"""Requests per operation and phase, after which the next seed is used."""


@dataclass(frozen=True)
class Target:
    """A running API, an administrator's key for it with its id, and refinements that exist."""

    url: str
    key: str
    key_id: str
    refinements: Sequence[str]


@dataclass(frozen=True)
class Generated:
    """How the generated requests were answered."""

    statuses: Counter[int]
    slowest: tuple[float, str]
    """Seconds, and the operation."""
    wrong: list[str]
    """A line for each kind of wrong answer."""
    reached: frozenset[str]
    """Operations that were done at least once (2xx)."""
    details: str
    """What was wrong, with a command that shows each."""


def generated_at_least(cases: int, target: Target, folder: Path, seed: int) -> Generated:
    """Send at least as many requests; the same seed sends the same."""
    found = generated(target, folder, seed, ROUND, "examples,coverage,fuzzing,stateful")
    while found.statuses.total() < cases:
        seed += 1
        more = generated(target, folder, seed, ROUND, "fuzzing,stateful")
        found = Generated(
            found.statuses + more.statuses,
            max(found.slowest, more.slowest),
            sorted({*found.wrong, *more.wrong}),
            found.reached | more.reached,
            found.details + more.details,
        )
    return found


def generated(target: Target, folder: Path, seed: int, each: int, phases: str) -> Generated:
    """Send about `each` requests per operation and phase; the same seed sends the same requests."""
    (folder / "refinements.txt").write_text("\n".join(f'"{it}"' for it in target.refinements))
    answers, report = folder / "answers.txt", folder / "report.json"
    for earlier in (answers, report):
        earlier.unlink(missing_ok=True)
    options = {
        "--url": target.url,
        "--header": f"Authorization: Bearer {target.key}",
        "--seed": str(seed),
        "--max-examples": str(each),
        "--phases": phases,
        "--generation-database": "none",
        "--report-json-path": str(report),
    }
    configuration = folder / "schemathesis.toml"  # beside the file that it names
    configuration.write_text((HERE / configuration.name).read_text())
    command = [str(Path(sys.executable).with_name("st")), "--config-file", str(configuration)]
    command += ["--no-color", "run", str(_without_streams(folder))]
    ran = subprocess.run(
        command + [part for option in options.items() for part in option],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), OWN_KEY: target.key_id, ANSWERS: str(answers)},
        capture_output=True,
        text=True,
        check=False,
    )
    if not report.exists():
        raise RuntimeError(f"schemathesis did not run:\n{ran.stdout}{ran.stderr}")
    lines = [line.split(" ", 2) for line in answers.read_text().splitlines()]
    return Generated(
        Counter(int(status) for status, *_ in lines),
        max((float(seconds), operation) for _, seconds, operation in lines),
        _wrong(json.loads(report.read_text()), ran.returncode),
        frozenset(operation for status, _, operation in lines if status.startswith("2")),
        ran.stdout.partition("= FAILURES =")[2],
    )


def _wrong(report: dict[str, Any], exit_code: int) -> list[str]:
    found = [f"{it['title']}: {', '.join(it['operations'])}" for it in report["failures"]]
    found += [f"not tried: {it}" for it in report["errors"]]
    return found or ([f"schemathesis ended with status {exit_code}"] if exit_code else [])


def _without_streams(folder: Path) -> Path:
    """Write the document without the schema of what a stream's events have as `data`.

    Schemathesis holds it against the event itself, with its `id` and its `retry`.
    """
    document = json.loads(DOCUMENT.read_text())
    events = document["paths"]["/v1/refinements/{refinement_id}/events"]["get"]
    del events["responses"]["200"]["content"]["text/event-stream"]["schema"]
    copy = folder / "openapi.json"
    copy.write_text(json.dumps(document))
    return copy
