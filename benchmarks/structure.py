"""python -m benchmarks.structure [--files] [--root DIR]: measure how the code is cut into files.

It counts files, importers, class names, methods that only forward, and the files whose code runs
for one submission. `--files` lists what is counted; `--root` measures another checkout with the
packages of this one.
"""

import argparse
import ast
import asyncio
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

HERE = Path(__file__).resolve()
PRODUCT, TRIALS = ("app", "workers"), ("tests", "benchmarks")
SMALL = 60
TIMEOUT_S = 60.0

SCORES = {"Draft one.": 0.5, "Draft two, which is better.": 0.95}


@dataclass(frozen=True)
class Module:
    """One Python file of a checkout."""

    name: str
    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The file, parsed."""
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        """How many lines the file has."""
        return len(self.text.splitlines())

    @property
    def is_package(self) -> bool:
        """Whether it is the `__init__.py` or `__main__.py` of a package."""
        return self.path.endswith(("__init__.py", "__main__.py"))


@dataclass(frozen=True)
class Checkout:
    """The modules of some packages, by name."""

    root: Path
    modules: Mapping[str, Module]

    @classmethod
    def read(cls, root: Path, packages: Sequence[str]) -> "Checkout":
        """Return every Python file of the packages."""
        paths = sorted(path for package in packages for path in (root / package).rglob("*.py"))
        named = [(_module_name(path.relative_to(root)), path) for path in paths]
        return cls(
            root,
            {
                name: Module(name, str(path.relative_to(root)), path.read_text())
                for name, path in named
            },
        )

    def importers(self) -> dict[str, set[str]]:
        """Return, by module, the other modules that import it."""
        found: dict[str, set[str]] = defaultdict(set)
        for module in self.modules.values():
            for imported in _imports(module, self.modules):
                if imported != module.name:
                    found[imported].add(module.name)
        return found

    def with_one_importer(self) -> list[tuple[Module, str]]:
        """Return the modules, packages aside, that exactly one other imports."""
        importers = self.importers()
        return [
            (module, next(iter(importers[name])))
            for name, module in self.modules.items()
            if len(importers[name]) == 1 and not module.is_package
        ]

    def repeated_classes(self) -> dict[str, list[str]]:
        """Return the public class names that are defined more than once, and where."""
        found: dict[str, list[str]] = defaultdict(list)
        for module in self.modules.values():
            for node in module.tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(module.path)
        return {name: paths for name, paths in found.items() if len(paths) > 1}

    def forwarding(self) -> list[str]:
        """Return the methods that only call a method of another object with their arguments."""
        return [
            f"{module.path}: {owner.name}.{method.name}"
            for module in self.modules.values()
            for owner in ast.walk(module.tree)
            if isinstance(owner, ast.ClassDef)
            for method in owner.body
            if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and _only_forwards(method)
        ]


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(module: Module, known: Mapping[str, Module]) -> Iterator[str]:
    """Yield the known modules that a module imports; `from a import b` also yields module a.b."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield from (name for name in (submodule, node.module) if name in known)


def _only_forwards(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    statements = [it for it in method.body if not _is_docstring(it)]
    while len(statements) == 1 and isinstance(statements[0], ast.With | ast.AsyncWith):
        statements = statements[0].body
    if len(statements) != 1 or not isinstance(statements[0], ast.Return | ast.Expr):
        return False
    value = statements[0].value
    call = value.value if isinstance(value, ast.Await) else value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    if not _is_attribute_of_self(call.func.value):
        return False
    own = [*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs][1:]
    given = [ast.unparse(it) for it in (*call.args, *(keyword.value for keyword in call.keywords))]
    return given == [it.arg for it in own]


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_attribute_of_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node).startswith("self.")


class FilesRun:
    """Collects the files of app/ and workers/ in which a function runs while it is `on`."""

    def __init__(self, root: Path) -> None:
        self.on = False
        self.files: set[str] = set()
        self._prefixes = tuple(f"{root / package}{os.sep}" for package in PRODUCT)
        self._seen: dict[str, bool] = {}

    def start(self) -> None:
        """Trace every call from now on, in this thread and in threads that start later."""
        threading.setprofile(self._called)
        sys.setprofile(self._called)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        if not self.on or event != "call":
            return
        path = frame.f_code.co_filename
        if path not in self.files and path.startswith(self._prefixes) and not _imports_now(frame):
            self.files.add(path)


def _imports_now(frame: FrameType) -> bool:
    """Return whether a frame is, or was called by, the body of a module that is imported."""
    at: FrameType | None = frame
    while at is not None:
        if at.f_code.co_name == "<module>" and at.f_code.co_filename != str(HERE):
            return True
        at = at.f_back
    return False


def _scripted(call: Any) -> str:
    """Write a draft, revise it once, and pass the revision."""
    if call.prompt.name == "write":
        return "Draft one."
    if call.prompt.name == "revise":
        return "Draft two, which is better."
    text = call.prompt_request.draft
    score = SCORES[text if isinstance(text, str) else text.text]
    scores = [{"criterion": "quality", "score": score, "reason": "It says so."}]
    return json.dumps({"scores": scores, "strengths": [], "weaknesses": [], "suggestions": []})


def _defined(checkout: Checkout, name: str) -> Any:
    """Return what a checkout defines under a name at the top level of one of its modules."""
    for module in checkout.modules.values():
        for node in module.tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and (
                node.name == name
            ):
                return getattr(import_module(module.name), name)
    raise LookupError(f"{checkout.root} defines no {name}")


class NoChildren(AsyncExitStack):
    """A fork server for a submission that is no suspect."""

    async def start(self, name: str) -> None:
        """Raise AssertionError: there is nothing to start."""
        raise AssertionError(name)


async def submit_one(root: Path, run: FilesRun, directory: Path) -> str:
    """Serve and work in this process, play one refinement, and return its last event's type."""
    checkout = Checkout.read(root, PRODUCT)
    settings_of, queue_of = _defined(checkout, "Settings"), _defined(checkout, "RefinementQueue")
    with _defined(checkout, "EmbeddedRedis").start(directory, aof=False) as redis:
        settings = settings_of(
            redis_url=redis.url, model="openai:scripted", openai_base_url="http://127.0.0.1:9/v1"
        )
        app = _defined(checkout, "create_app")(settings)
        open_store, open_models = (
            _defined(checkout, name) for name in ("open_worker_store", "open_models")
        )
        models = {"openai": _defined(checkout, "Scripted")(_scripted)}
        no_resources = import_module("workers.validators").NO_RESOURCES
        async with (
            app.router.lifespan_context(app) as state,
            open_store(settings, queue_of(settings.queue), "worker") as store,
            open_models(settings, **models) as registry,
        ):
            work = import_module("workers.__main__").work
            if "fork_server" in inspect.signature(work).parameters:  # releases after 0.1.0
                work = partial(work, fork_server=NoChildren())
            working = asyncio.create_task(work(settings, store, registry, no_resources, "worker"))
            await asyncio.sleep(1)  # until it waits for a job
            try:
                return await _watched(app, state, run)
            finally:
                run.on = False
                os.kill(os.getpid(), signal.SIGTERM)
                await working


async def _watched(app: Any, state: Mapping[str, Any], run: FilesRun) -> str:
    body = json.dumps({"task": "Explain refunds.", "strategy": {"kind": "iterative"}}).encode()
    run.on = True
    created = json.loads(await _request(app, state, "POST", "/v1/refinements", body))
    events = await _request(app, state, "GET", f"{created['links']['events']}")
    run.on = False
    return [line for line in events.decode().splitlines() if line.startswith("event:")][-1]


async def _request(
    app: Any, state: Mapping[str, Any], method: str, path: str, body: bytes = b""
) -> bytes:
    """Return the body of an ASGI application's answer."""
    headers = [(b"content-type", b"application/json"), (b"accept", b"text/event-stream")]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": dict(state),
    }
    received = iter([{"type": "http.request", "body": body, "more_body": False}])
    parts: list[bytes] = []

    async def receive() -> dict[str, Any]:
        if (message := next(received, None)) is None:
            await asyncio.sleep(TIMEOUT_S)
        return message or {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return b"".join(parts)


def _trace(root: Path) -> None:
    """Print the files of one submission as JSON."""
    run = FilesRun(root)
    run.start()
    with tempfile.TemporaryDirectory() as directory:
        ended = asyncio.run(submit_one(root, run, Path(directory)))
    if ended != "event: refinement.completed":
        raise RuntimeError(f"the submission ended with {ended}")
    print(json.dumps(sorted(str(Path(path).relative_to(root)) for path in run.files)))


def files_of_one_submission(root: Path) -> list[str]:
    """Return the files of app/ and workers/ in which a function runs for one submission."""
    found = subprocess.run(
        [sys.executable, str(HERE), "--trace", "--root", str(root)],
        cwd=tempfile.gettempdir(),  # no .env of a checkout counts
        env=os.environ | {"PYTHONPATH": str(root)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    files: list[str] = json.loads(found.stdout)
    return files


def _listed(title: str, lines: Iterable[str]) -> None:
    print(f"\n{title}:")
    for line in lines:
        print(f"  {line}")


def main() -> None:
    """Print the figures as a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", action="store_true", help="list what is counted")
    parser.add_argument("--root", type=Path, default=HERE.parent.parent, help="another checkout")
    parser.add_argument("--trace", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    if arguments.trace:
        _trace(root)
        return
    product, trials = Checkout.read(root, PRODUCT), Checkout.read(root, TRIALS)
    alone = product.with_one_importer()
    small = [(module, importer) for module, importer in alone if module.lines < SMALL]
    classes, trial_classes = product.repeated_classes(), trials.repeated_classes()
    forwarding, run = product.forwarding(), files_of_one_submission(root)
    figures = {
        "Python files in app and workers": len(product.modules),
        "median lines": round(median(it.lines for it in product.modules.values())),
        "modules with exactly one importer": len(alone),
        f"of those, under {SMALL} lines": len(small),
        "public class names defined twice, in app and workers": len(classes),
        "public class names defined twice, in tests and benchmarks": len(trial_classes),
        "methods that only forward": len(forwarding),
        "files that run for one submission": len(run),
    }
    print("| | |\n|---|--:|")
    for title, figure in figures.items():
        print(f"| {title} | {figure} |")
    if arguments.files:
        by_lines = sorted(alone, key=lambda it: it[0].lines)
        lines = (f"{it.lines:4} {it.path} <- {importer}" for it, importer in by_lines)
        _listed("modules with exactly one importer", lines)
        both = {**classes, **trial_classes}
        _listed("repeated classes", (f"{it}: {', '.join(paths)}" for it, paths in both.items()))
        _listed("methods that only forward", forwarding)
        _listed("files that run for one submission", run)
        rooms = Counter(str(Path(path).parent) for path in run)
        _listed("of these, by room", (f"{count:3} {room}" for room, count in rooms.most_common()))


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main()
