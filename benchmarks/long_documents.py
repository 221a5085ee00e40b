"""Measures drafts of millions of characters, refined part by part, from POST to the report.

    python -m benchmarks.long_documents [--characters 1000000 2000000 4000000] [FILE ...]

Each length has a service of its own. Texts are the beginning of the given files, else of the help
and the docstrings of the packages that are installed. Every part is judged and, if it does not
score 1, revised and judged once more, by `offline:editor`, whose work is in that of the worker.
"""

import argparse
import ast
import json
import sysconfig
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from pydoc_data.topics import topics
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import Request, urlopen

from redis import Redis

from app.local.embedded import EmbeddedRedis
from benchmarks.contenders import Setup, start_hone
from benchmarks.processes import cpu_s, peak_mb

LENGTHS = (1_000_000, 2_000_000, 4_000_000)
LOOK_S = 1.0
PACKED = b"packed"
HEAD = (
    "characters",
    "parts",
    "calls",
    "body, MB",
    "worker, CPU s",
    "API, CPU s",
    "Redis, CPU s",
    "worker, MB",
    "API, MB",
    "Redis, MB at most",
    "Redis, MB at the end",
    "largest event, MB",
    "/iterations, ms",
    "/diff, ms",
    "/report, ms",
)


def documents(files: Sequence[Path]) -> Iterator[str]:
    """Yield the texts of files, else help and docstrings of what is installed."""
    if files:
        yield from (file.read_text(errors="replace") for file in files)
        return
    yield from topics.values()
    for folder in (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")):
        for module in sorted(Path(folder).rglob("*.py")):
            try:
                tree = ast.parse(module.read_text())
            except (ValueError, SyntaxError):
                continue
            nodes = (it for it in ast.walk(tree) if isinstance(it, ast.FunctionDef | ast.ClassDef))
            yield from (text for it in chain([tree], nodes) if (text := ast.get_docstring(it)))


def beginning(texts: Iterator[str], characters: int) -> str:
    """Return the first characters of texts, with a blank line between two."""
    found, length = list[str](), 0
    for text in texts:
        found.append(text)
        length += len(text) + 2
        if length > characters:
            return "\n\n".join(found)[:characters]
    raise SystemExit(f"the texts have {length} characters, not {characters}")


def row(draft: str) -> list[float]:
    """Refine a draft on a service of its own; return the figures of `HEAD`."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="hone-bench-")))
        embedded = stack.enter_context(EmbeddedRedis(directory))
        setup = Setup("http://127.0.0.1:1/v1", embedded.url, directory, 1, stack)
        env = {"HONE_PACK_AFTER_S": "10"}
        port, (api, worker) = start_hone(setup, api_env=env, worker_env=env)
        redis = stack.enter_context(Redis.from_url(embedded.url))
        url = f"http://127.0.0.1:{port}/v1/refinements"
        pids = worker.pid, api.pid, embedded.pid
        before = [cpu_s(pid) for pid in pids]
        body = json.dumps(_request(draft), ensure_ascii=False).encode()
        said = Request(url, body, {"Content-Type": "application/json"})
        with urlopen(said) as answer:
            at = f"{url}/{json.load(answer)['id']}"
        ended = _ended(at)
        if ended["status"] != "succeeded" or not ended["result"]:
            raise RuntimeError(f"it ended as {ended['status']}: {ended['reason']}")
        journal = f"hone:1:journal:{ended['id']}"
        entries = redis.xrange(journal)
        largest = max(sum(map(len, fields.values())) for _, fields in entries)
        times = [
            _milliseconds(f"{at}/{part}") for part in ("iterations", "diff?from=0&to=1", "report")
        ]
        while PACKED not in redis.xrange(journal, count=1)[0][1]:
            time.sleep(LOOK_S)
        memory = redis.info("memory")
        used = [cpu_s(pid) - first for pid, first in zip(pids, before, strict=True)]
        parts = {
            of["path"].split("/")[1] for of in ended["scores"] if of["path"].startswith("parts")
        }
        return [
            len(draft),
            len(parts),
            ended["usage"]["calls"],
            len(body) / 1e6,
            *used,
            peak_mb(worker.pid),
            peak_mb(api.pid),
            memory["used_memory_peak"] / 1e6,
            memory["used_memory"] / 1e6,
            largest / 1e6,
            *times,
        ]


def _request(draft: str) -> dict[str, Any]:
    return {
        "draft": draft,
        "criteria": [{"name": "clarity"}, {"name": "spelling"}],
        "strategy": {"kind": "nested", "max_iterations": 1},
        "threshold": 1,
        "models": dict.fromkeys(("generator", "critic"), "offline:editor"),
    }


def _ended(at: str) -> Any:
    while True:
        with urlopen(f"{at}?wait=0") as answer:
            snapshot = json.load(answer)
        if snapshot["status"] not in ("queued", "running"):
            return snapshot
        time.sleep(LOOK_S)


def _milliseconds(url: str) -> float:
    begun = time.perf_counter()
    with urlopen(url) as answer:
        answer.read()
    return 1_000 * (time.perf_counter() - begun)


def main() -> None:
    """Print a table with a column for each length, and how much more the last one takes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--characters", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("files", type=Path, nargs="*")
    chosen = parser.parse_args()
    text = beginning(documents(chosen.files), max(chosen.characters))
    rows = [row(text[:length]) for length in chosen.characters]
    print("|  |" + " --- |" * (len(rows) + 1))
    for name, *figures in zip(HEAD, *rows, strict=True):
        shown = " | ".join(
            f"{figure:,.4g}" if figure < 1e4 else f"{figure:,.0f}" for figure in figures
        )
        print(f"| {name} | {shown} | {figures[-1] / figures[0]:.1f} |")


if __name__ == "__main__":
    main()
