"""python -m benchmarks.mutants [--count 100] [--seed 1] [--near] [ROOM ...]: do the tests bite?

Each mutant is a copy of the checkout in which one operator, number, truth value or condition of
the store, play or engine rooms is another (Python and Lua). It is found if a test fails, or if the
tests hang. The tests that run the changed line in their own process are tried first, as pytest-cov
noted them in one run without any change, then all tests of the room. With `--near` a sample of the
former is tried and none of the latter; for a line that no test runs so, such as a constant, a
sample of those that run the rest of its file. That is a lower bound: what it misses is to be tried
with the others. Lua is always tried with all.
`--long` runs those that take long, too, on the mutants that the suite for everybody has not found:
what that suite lets through.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path

from coverage import CoverageData

ROOT = Path(__file__).resolve().parent.parent
ROOMS = {
    "app/store": ("tests/store", "tests/models", "tests/workers", "tests/simulation", "tests/api"),
    "workers/play": ("tests/workers", "tests/store", "tests/simulation", "tests/api"),
    "workers/engine": ("tests/engine", "tests/workers", "tests/api"),
}
"""Folders that are changed, and the tests of each, the nearest first."""

TIMEOUT_S = 1_200
HANGS_S = 60
"""A test that takes longer has failed: each bound of its own is for a machine that is busy."""
NEAR = 40
"""Of the tests that run a line, as many are tried before the others, in one process."""
SAMPLE = 400
"""Of the tests that run a line, as many are tried at most with `--near`."""

LEFT_OUT = shutil.ignore_patterns(
    ".venv", ".git", "node_modules", "__pycache__", ".*_cache", "site"
)
IN_PYTHON = (
    ("==", "!="),
    ("!=", "=="),
    ("<=", "<"),
    (">=", ">"),
    (" < ", " <= "),
    (" > ", " >= "),
    (" and ", " or "),
    (" or ", " and "),
    (" + ", " - "),
    (" - ", " + "),
    (" is None", " is not None"),
    (" is not None", " is None"),
    (" not in ", " in "),
    ("if not ", "if "),
    ("True", "False"),
    ("False", "True"),
)
IN_LUA = (
    ("==", "~="),
    ("~=", "=="),
    (" < ", " <= "),
    (" > ", " >= "),
    (" and ", " or "),
    (" or ", " and "),
    (" + ", " - "),
    (" - ", " + "),
    ("if not ", "if "),
    ("'1'", "'0'"),
    ("'0'", "'1'"),
)
NUMBER = re.compile(r"(?<![\w.'\"])\d+(?![\w.'\"])")
NO_CODE = re.compile(r'^\s*(#|--|from |import |@|"""|class |def |async def |raise )')


@dataclass(frozen=True)
class Mutation:
    """One change of one line."""

    path: str
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before.strip()}  ->  {self.after.strip()}"


def mutants_of(path: str, text: str) -> Iterator[Mutation]:
    """Yield every mutant of a file; comments, docstrings, imports and signatures have none."""
    changes = IN_LUA if path.endswith(".lua") else IN_PYTHON
    for number, line in _lines_of_code(text):
        for old, new in changes:
            for place in _places(re.escape(old), line):
                yield Mutation(path, number, line, line[:place] + new + line[place + len(old) :])
        for found in NUMBER.finditer(_without_texts(line)):
            changed = f"{line[: found.start()]}{int(found[0]) + 1}{line[found.end() :]}"
            yield Mutation(path, number, line, changed)


def _lines_of_code(text: str) -> Iterator[tuple[int, str]]:
    is_docstring = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.count('"""') == 1:
            is_docstring = not is_docstring
        elif not is_docstring and not NO_CODE.match(line):
            yield number, line.partition("  # ")[0].partition("  -- ")[0]


def _places(pattern: str, line: str) -> Iterator[int]:
    """Yield where a pattern occurs outside of double quotes."""
    yield from (found.start() for found in re.finditer(pattern, _without_texts(line)))


def _without_texts(line: str) -> str:
    """Return a line of the same length without what stands between double quotes."""
    return re.sub(r'"[^"]*"', lambda found: '"' + "\0" * (len(found[0]) - 2) + '"', line)


def sampled(root: Path, room: str, count: int, seed: int) -> list[Mutation]:
    """Return mutants of a room, drawn with a seed."""
    files = sorted(file for file in (root / room).rglob("*") if file.suffix in (".py", ".lua"))
    everything = [
        mutant
        for file in files
        for mutant in mutants_of(str(file.relative_to(root)), file.read_text())
    ]
    return random.Random(f"{seed} {room}").sample(everything, count)


def note_lines(root: Path, tests: Iterable[str], noted: Path) -> None:
    """Run tests, and note in a file which lines of the rooms each one runs in its own process.

    Exits if a test fails. What a process that a test has started runs is not noted.
    """
    with tempfile.TemporaryDirectory(prefix="hone-lines-") as directory:
        config = Path(directory, "coveragerc")
        folders = "".join(f"\n    {root / room}/*" for room in ROOMS)
        config.write_text(f"[run]\ndata_file = {noted.resolve()}\ninclude ={folders}\n")
        noting = ("--cov", f"--cov-config={config}", "--cov-context=test", "--cov-report=")
        if failed := _pytest(root, root, [*noting, *tests]):
            noted.unlink(missing_ok=True)
            sys.exit(f"{failed} fails without any change")


def covering_tests(root: Path, noted: Path) -> Mapping[str, Mapping[int, Sequence[str]]]:
    """Return which tests run each line of each file, as `note_lines` noted it."""
    lines = CoverageData(str(noted))
    lines.read()
    return {
        str(Path(path).relative_to(root)): {
            line: sorted({it.rpartition("|")[0] for it in contexts} - {""})
            for line, contexts in lines.contexts_by_lineno(path).items()
        }
        for path in lines.measured_files()
    }


def spread(tests: Iterable[str], seed: str) -> list[str]:
    """Return tests in a random order, one case of each function before further ones."""
    cases: defaultdict[str, list[str]] = defaultdict(list)
    mixed = sorted(set(tests))
    random.Random(seed).shuffle(mixed)
    for test in mixed:
        cases[test.partition("[")[0]].append(test)
    return [test for turn in zip_longest(*cases.values()) for test in turn if test]


def found_by(
    mutant: Mutation,
    root: Path,
    near: Sequence[str],
    tests: Sequence[str],
    *,
    long: bool,
    hangs_s: int = HANGS_S,
) -> str:
    """Return which test fails on a copy of the checkout with a change; nothing if none does.

    The tests `near` the change run before the others, the first of them first. Whether the
    change is what a test fails by is for the reader to say: on a busy machine another cause is
    possible.
    """
    until = ("-x", "-o", f"faulthandler_timeout={hangs_s}")
    with tempfile.TemporaryDirectory(prefix="hone-mutant-") as directory:
        copy = Path(directory, "hone")
        shutil.copytree(root, copy, ignore=LEFT_OUT, symlinks=True)
        lines = (copy / mutant.path).read_text().splitlines()
        lines[mutant.line - 1] = mutant.after
        (copy / mutant.path).write_text("\n".join(lines) + "\n")
        failed = _pytest(copy, root, [*until, *near[:NEAR]], processes=0) if near else ""
        if not failed and near[NEAR:]:
            failed = _pytest(copy, root, [*until, *near[NEAR:]])
        if not failed and tests:
            failed = _pytest(copy, root, [*until, *(["--long"] if long else []), *tests])
        return failed


def _pytest(
    checkout: Path, installed: Path, arguments: Sequence[str], *, processes: int = 2
) -> str:
    """Return which test fails in a checkout, with the packages that another one has installed."""
    python = installed / ".venv" / "bin" / "python"
    side_by_side = ("-n", str(processes), "--dist", "worksteal")
    try:
        done = subprocess.run(
            [str(python), "-m", "pytest", "-q", "--tb=line", *side_by_side, *arguments],
            cwd=checkout,
            # A copy comes before the checkout that is installed.
            env=os.environ | {"PYTHONPATH": str(checkout)},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "the time limit"
    return failed_test(done.stdout) if done.returncode else ""


def failed_test(output: str) -> str:
    """Return the test that pytest names as failed first."""
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return found[1] if found else "pytest, which ran no test"


def main() -> None:
    """Print what became of each mutant, and the share of those that were found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rooms", nargs="*", default=list(ROOMS), metavar="ROOM")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--skip", type=int, default=0, help="mutants that a run before has tried")
    parser.add_argument("--near", action="store_true", help="where tests run the line, only these")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--noted", type=Path, help="keep here which tests run a line, or read it")
    parser.add_argument("--root", type=Path, default=ROOT, help="another checkout, installed")
    arguments = parser.parse_args()
    if unknown := set(arguments.rooms) - ROOMS.keys():
        parser.error(f"no such room: {', '.join(sorted(unknown))}; there are {', '.join(ROOMS)}")
    root = arguments.root.resolve()
    share, more = divmod(arguments.count, len(arguments.rooms))
    drawn = {
        room: [(room, it) for it in sampled(root, room, share + (number < more), arguments.seed)]
        for number, room in enumerate(arguments.rooms)
    }
    folders = {room: [it for it in ROOMS[room] if (root / it).is_dir()] for room in drawn}
    noted: Path = arguments.noted or Path(tempfile.mkdtemp(prefix="hone-lines-"), "noted")
    if not noted.exists():
        note_lines(root, sorted(set(chain.from_iterable(folders.values()))), noted)
    running = covering_tests(root, noted)
    quick = later = 0
    # By turns of the rooms: whoever ends the program has seen a sample of each.
    turns = filter(None, chain.from_iterable(zip_longest(*drawn.values())))
    for room, mutant in islice(turns, arguments.skip, None):
        lines = running.get(mutant.path, {})
        near = spread(lines.get(mutant.line, ()), str(mutant))
        others = folders[room]
        if arguments.near:
            near = (near or spread(chain.from_iterable(lines.values()), str(mutant)))[:SAMPLE]
            others = [] if near else others
        if test := found_by(mutant, root, near, others, long=False):
            quick += 1
            print(f"found by {test}: {mutant}", flush=True)
            continue
        test = arguments.long and found_by(mutant, root, (), folders[room], long=True)
        later += bool(test)
        print(f"{f'only by {test}' if test else 'not found'}: {mutant}", flush=True)
    tried = arguments.count - arguments.skip
    print(f"{quick} of {tried} found by the suite for everybody, {later} more by --long")


if __name__ == "__main__":
    main()
