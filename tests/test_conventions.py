"""What would otherwise be written down as "remember to", and proof that each of it bites."""

import ast
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parent.parent
THIS_FILE = "tests/test_conventions.py"
ABOUT_MOCKS = ("tests/validators/test_forged_verdicts.py",)
"""Files about the mocks of the tests that clients send."""

# One at a time: the trees of all files are millions of objects, which slow what this process does
# after these tests.
parsed = lru_cache(maxsize=1)(ast.parse)


@lru_cache(maxsize=1)
def nodes(source: str) -> list[ast.AST]:
    return list(ast.walk(parsed(source)))


def spells_no_redis_key(path: str, source: str) -> bool:
    """Only app.store spells a key or channel of Redis (`hone:1:...`)."""
    return not path.startswith(("app/", "workers/")) or (
        path.startswith("app/store/") or not re.search(r"\bhone:[\w{]", source)
    )


def is_named_for_what_it_holds(path: str, _source: str) -> bool:
    return not re.search(r"(^|[/_])(utils?|helpers?|common|manager|base|misc)[_./]", path)


def has_no_function_over_60_lines(_path: str, source: str) -> bool:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return all(
        (node.end_lineno or 0) - node.lineno < 60
        for node in nodes(source)
        if isinstance(node, functions)
    )


def constructs_and_never_patches(path: str, source: str) -> bool:
    """Collaborators are passed in, so a test never replaces one behind a module's back."""
    patching = r"\b(monkeypatch|MonkeyPatch|mocker|unittest\.mock|import mock)\b"
    return path in (THIS_FILE, *ABOUT_MOCKS) or not re.search(patching, source)


def asserts_no_duration(path: str, source: str) -> bool:
    """A machine that is busy with something else must not turn a test red."""
    timing = r"assert .*(elapsed|perf_counter|monotonic\(\))"
    return path == THIS_FILE or not path.startswith("tests/") or not re.search(timing, source)


def gives_its_requests_time(path: str, source: str) -> bool:
    """A request of a test has a timeout: the 5 s of httpx are too few on a busy machine."""
    if not path.startswith("tests/") or "httpx." not in source:
        return True
    requests = {"get", "post", "stream", "Client", "AsyncClient"}
    given = [
        {keyword.arg for keyword in node.keywords}
        for node in nodes(source)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in requests
        and ast.unparse(node.func.value) == "httpx"
    ]
    return all({"timeout", "transport"} & it for it in given)


def calls_no_variable_it(path: str, source: str) -> bool:
    """A variable of the product is called by a noun, for what it holds."""
    return not path.startswith(("app/", "workers/", "extras/")) or all(
        getattr(node, attribute, None) != "it"
        for node in nodes(source)
        for attribute in ("id", "arg", "name")
    )


def doubles_a_bounded_number_of_times(path: str, source: str) -> bool:
    """2.0 ** 1024 is an OverflowError, which a number of failures reaches; so is redis-py's own."""
    if path == THIS_FILE or not re.search(r"ExponentialWithJitterBackoff\(|\b2\.0\b", source):
        return True
    return "ExponentialWithJitterBackoff(" not in source and all(
        "min(" in ast.unparse(node.right) or ast.unparse(node.right).isdecimal()
        for node in nodes(source)
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Pow)
        and ast.unparse(node.left) == "2.0"
    )


CONVENTIONS: list[Callable[[str, str], bool]] = [
    spells_no_redis_key,
    is_named_for_what_it_holds,
    has_no_function_over_60_lines,
    constructs_and_never_patches,
    asserts_no_duration,
    gives_its_requests_time,
    calls_no_variable_it,
    doubles_a_bounded_number_of_times,
]

BROKEN = [
    (spells_no_redis_key, "app/service.py", 'KEY = "hone:1:due"'),
    (spells_no_redis_key, "workers/driver.py", 'key = f"hone:{version}:due"'),
    (is_named_for_what_it_holds, "app/utils.py", ""),
    (is_named_for_what_it_holds, "workers/engine/text_helpers.py", ""),
    (is_named_for_what_it_holds, "app/common/__init__.py", ""),
    (has_no_function_over_60_lines, "app/main.py", "def long():\n" + "    x = 1\n" * 60),
    (constructs_and_never_patches, "tests/test_x.py", "def test_x(monkeypatch): ..."),
    (constructs_and_never_patches, "tests/test_x.py", "from unittest.mock import patch"),
    (asserts_no_duration, "tests/test_x.py", "assert perf_counter() - began < 1"),
    (gives_its_requests_time, "tests/test_x.py", 'httpx.Client(base_url="http://hone").get("/")'),
    (gives_its_requests_time, "tests/added_x.py", "httpx.get(url, headers={})"),
    (calls_no_variable_it, "app/main.py", "names = [it.name for it in tasks]"),
    (calls_no_variable_it, "workers/driver.py", "first = min(calls, key=lambda it: it.at)"),
    (calls_no_variable_it, "extras/hone_extras/x.py", "found = (it := looked_up())"),
    (doubles_a_bounded_number_of_times, "app/x.py", "wait_s = min(2.0 ** (failures - 1), 60)"),
    (doubles_a_bounded_number_of_times, "app/x.py", "ExponentialWithJitterBackoff(base=1, cap=9)"),
]


def sources() -> list[str]:
    return sorted(
        str(path.relative_to(ROOT))
        for package in ("app", "workers", "extras", "tests", "benchmarks")
        for path in (ROOT / package).rglob("*.py")
    )


@cache
def survey() -> tuple[set[tuple[Callable[[str, str], bool], str]], list[tuple[str, str]]]:
    """Return which convention is broken by which file, and the public classes with their files."""
    broken, classes = set(), list[tuple[str, str]]()
    for path in sources():
        source = (ROOT / path).read_text()
        broken |= {(it, path) for it in CONVENTIONS if not it(path, source)}
        named = (it.name for it in parsed(source).body if isinstance(it, ast.ClassDef))
        classes += [(name, path) for name in named if not name.startswith("_")]
    return broken, classes


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_every_file_keeps_the_convention(convention: Callable[[str, str], bool]) -> None:
    broken, _ = survey()
    assert sorted(path for it, path in broken if it is convention) == []


@pytest.mark.parametrize(("convention", "path", "source"), BROKEN)
def test_a_file_that_breaks_the_convention_is_noticed(
    convention: Callable[[str, str], bool], path: str, source: str
) -> None:
    assert not convention(path, source)


def test_every_convention_has_an_example_that_is_noticed() -> None:
    assert {convention for convention, _, _ in BROKEN} == set(CONVENTIONS)


def classes_in(folders: Sequence[str]) -> dict[str, list[str]]:
    """Files by the name of the public class that they define."""
    found: dict[str, list[str]] = {}
    for name, path in survey()[1]:
        if path.startswith(tuple(f"{folder}/" for folder in folders)):
            found.setdefault(name, []).append(path)
    return found


@pytest.mark.parametrize("folders", [("app", "workers"), ("app", "workers", "tests", "benchmarks")])
def test_no_public_class_name_stands_for_two_things(folders: Sequence[str]) -> None:
    assert {name: paths for name, paths in classes_in(folders).items() if len(paths) > 1} == {}


def test_every_folder_of_tests_is_a_package_so_that_names_may_repeat() -> None:
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_no_client_of_a_test_reads_the_certificates_that_this_machine_trusts() -> None:
    assert httpx.create_ssl_context().cert_store_stats()["x509"] == 0
