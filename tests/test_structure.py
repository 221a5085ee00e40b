"""The measure of the code's weight: known answers in a small checkout, and a second measurement."""

import ast
import json
import os
import shutil
from collections.abc import Iterator, MutableMapping
from pathlib import Path

import pytest

from benchmarks.one_submission import COUNTED, files_of_one_submission
from benchmarks.structure import PRODUCT, Checkout, exceeded, lowered, measure

ROOT = Path(__file__).parent.parent

CHECKOUT = {
    "pyproject.toml": '[project]\ndependencies = ["redis>=8,<9", "rq>=2"]\n',
    "README.md": "Four words, no more.\n",
    "docs/page.md": "Three more words.\n",
    "docs/adr/0001.md": "These words do not count.\n",
    "openapi/openapi.json": json.dumps(
        {
            "components": {
                "schemas": {"A": {"properties": {"b": {}, "c": {}}}, "D": {"type": "null"}}
            }
        }
    ),
    "app/__init__.py": "",
    "app/settings.py": "class Settings:\n    host: str = ''\n    port: int = 1\n",
    "app/word.py": "def said():\n    return [1,\n        2]\ndef _own(): ...\n",
    "app/user.py": "from app import word\ndef used(): return word.said()\n",
    "app/data.json": "{\n}\n",
    "app/lua/one.lua": "return 1\n",
    "workers/__init__.py": "",
    "workers/edge.py": (
        "import os\nfrom redis._parsers import bounded\nfrom rq._jobs import jobs\nimport rq\n"
        "def said(job): return rq._private, job._their_own, job._own, os._exit, bounded, jobs\n"
        "def bound(job): return job._parsers\n"
    ),
}


def written(root: Path, files: dict[str, str]) -> Path:
    """Write the files of a checkout."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_a_small_checkout_has_the_figures_that_a_person_counts(tmp_path: Path) -> None:
    figures = {it.title: it.figure for it in measure(written(tmp_path, CHECKOUT))}
    assert figures == {
        "lines of Python": 3 + 5 + 5 + 12,  # as ruff formats them
        "files of Python": 6,
        "lines of data beside them": 2,
        "lines of Lua": 1,
        "Lua scripts": 1,
        "modules with one importer": 1,  # word
        "of those, under 60 lines": 1,
        "names of public functions in two files": 1,  # said
        "names of public classes in two files": 0,
        "such names in tests and benchmarks": 0,
        "methods that only forward": 0,
        "settings": 2,
        "schema properties": 2,
        "private names of libraries without an upper bound": 3,
        "words of README.md": 4,
        "words of docs apart from ADRs": 3,
    }


SERVICE = {
    "benchmarks/__init__.py": "",
    "benchmarks/model_server.py": "import time\nprint(1, flush=True)\ntime.sleep(600)\n",
    "app/__init__.py": "",
    "app/cli/__init__.py": "",
    "app/cli/__main__.py": """
        import signal, subprocess, sys
        from app import supervising
        with subprocess.Popen([sys.executable, "-m", "app.api"]) as api:
            try:
                supervising.wait(api)
            except KeyboardInterrupt:
                api.send_signal(signal.SIGINT)
                api.wait()
        """,
    "app/supervising.py": "def wait(api): api.wait()\n",
    "app/api.py": """
        import os, subprocess, sys, threading, json
        from http.server import BaseHTTPRequestHandler, HTTPServer
        from app import by_import, at_start, in_a_thread
        worker = subprocess.Popen(
            [sys.executable, "-m", "workers"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        at_start.run()
        class Handler(BaseHTTPRequestHandler):
            def answer(self, text):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(text.encode())
            def log_message(self, *_): ...
            def do_GET(self):
                events = "event: refinement.completed"
                self.answer('{"workers": 1}' if self.path == "/readyz" else events)
            def do_POST(self):
                thread = threading.Thread(target=in_a_thread.run)
                thread.start()
                thread.join()
                worker.stdin.write(b"1")
                worker.stdin.flush()
                worker.stdout.read(1)
                self.answer('{"links": {"events": "/events"}}')
        try:
            HTTPServer(("127.0.0.1", int(os.environ["HONE_PORT"])), Handler).serve_forever()
        except KeyboardInterrupt:
            worker.kill()
            worker.wait()
        """,
    "app/by_import.py": "def run(): ...\nrun()\n",
    "app/at_start.py": "def run(): ...\n",
    "app/in_a_thread.py": "def run(): ...\n",
    "app/never.py": "def run(): ...\n",
    "workers/__init__.py": "",
    "workers/__main__.py": """
        import os
        from importlib import import_module
        while os.read(0, 1):
            import_module("workers.imported_late")
            from workers import playing
            playing.play()
            os.write(1, b"1")
        """,
    "workers/imported_late.py": "def run(): ...\nrun()\n",
    "workers/playing.py": "def play(): return [one for one in numbers()]\ndef numbers(): yield 1\n",
}


@pytest.mark.long
def test_files_run_by_every_process_count_and_those_of_imports_and_of_the_start_do_not(
    tmp_path: Path,
) -> None:
    dedented = {name: text.replace("\n        ", "\n") for name, text in SERVICE.items()}
    found = files_of_one_submission(written(tmp_path, dedented).resolve(), PRODUCT)
    assert found == ["app/api.py", "app/in_a_thread.py", "workers/playing.py"]


NOTED = """
import os, sys, traceback
flag = os.open(os.environ["CALLED_FILES"] + "/flag", os.O_RDONLY)
def note(path):
    submission = os.pread(flag, 1, 0)[0]
    if submission and "serve" not in sys.orig_argv and not any(
        frame.f_code.co_filename == "<frozen importlib._bootstrap>"
        for frame, _ in traceback.walk_stack(None)
    ):
        with open(os.environ["NOTED_CALLS"], "a") as file:
            file.write(f"{submission} {path}\\n")
"""
"""What each function of a copy calls first: which file it stands in, and for which submission."""


LAUNCHER = "app/local/parent_death.py"
"""Runs without the path on which `note` is found, and becomes another program."""


def instrumented(source: str, path: str) -> str:
    """Write a module anew, with a call of `note` at the beginning of each function."""
    tree = ast.parse(source)
    call = ast.parse(f"__import__('noted_calls').note({path!r})").body[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            documented = ast.get_docstring(node) is not None
            node.body[documented:documented] = [call]
        elif isinstance(node, ast.Lambda):
            node.body = ast.parse(
                f"({ast.unparse(call)}, {ast.unparse(node.body)})[1]", mode="eval"
            ).body
    return ast.unparse(ast.fix_missing_locations(tree))


@pytest.fixture
def environment() -> Iterator[MutableMapping[str, str]]:
    """The environment of this process, which is restored afterwards."""
    before = dict(os.environ)
    yield os.environ
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.long
def test_functions_that_report_themselves_name_the_same_files(
    tmp_path: Path, environment: MutableMapping[str, str]
) -> None:
    for package in ("app", "workers", "benchmarks"):
        shutil.copytree(ROOT / package, tmp_path / package)
    (tmp_path / "noted_calls.py").write_text(NOTED)
    for module in Checkout.read(tmp_path, PRODUCT).modules.values():
        if module.path != LAUNCHER:
            (tmp_path / module.path).write_text(instrumented(module.text, module.path))
    notes = tmp_path / "notes"
    notes.touch()
    environment["NOTED_CALLS"] = str(notes)
    counted = set(files_of_one_submission(tmp_path.resolve(), PRODUCT))
    noted = [it.split() for it in notes.read_text().splitlines()]
    reported = [{path for part, path in noted if part == it} for it in map(str, COUNTED)]
    assert counted == set.intersection(*reported)
    assert counted > {"app/api/routes.py", "workers/play/driver.py", "workers/rq.py"}


def test_a_figure_above_its_limit_or_without_one_fails_and_limits_only_fall(tmp_path: Path) -> None:
    weights = list(measure(written(tmp_path, CHECKOUT)))
    right = {it.title: it.figure for it in weights}
    assert exceeded(weights, right) == []
    assert exceeded(weights, right | {"settings": 1}) == ["settings: 2, limit 1"]
    assert exceeded(weights, {}) != []
    assert lowered(weights, right | {"settings": 9, "Lua scripts": 0}) == right | {"Lua scripts": 0}
