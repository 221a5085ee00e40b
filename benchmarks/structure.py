"""python -m benchmarks.structure [--files] [--root DIR] [--check | --lower]: what the code weighs.

It counts lines, files, importers, names, settings, words, and the files whose code runs for one
submission. `--files` lists what is counted; `--root` measures another checkout with the packages
of this one. `--check` fails above the limits in `structure.json`; `--lower` lowers them to the
figures. Only people raise a limit.
"""

import argparse
import ast
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import packages_distributions
from pathlib import Path

from benchmarks.one_submission import files_of_one_submission

HERE = Path(__file__).resolve()
LIMITS = HERE.with_suffix(".json")
PRODUCT, TRIALS = ("app", "workers", "extras"), ("tests", "benchmarks")
SMALL = 60


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

    def repeated_functions(self) -> dict[str, list[str]]:
        """Return the names of public functions that several modules define, and where."""
        found: dict[str, list[str]] = defaultdict(list)
        for module in self.modules.values():
            for name in _public_functions(module.tree):
                found[name].append(module.path)
        return {name: paths for name, paths in found.items() if len(paths) > 1}


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


def _public_functions(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith(
            "_"
        ):
            yield node.name


DOCUMENTED = frozenset(
    {"_exit", "_getframe", "_current_frames", "_replace", "_asdict", "_fields", "_make"}
)
"""Names with an underscore that the documentation of Python describes."""


def private_names(checkout: Checkout, bounded: frozenset[str]) -> list[str]:
    """Return `PATH: NAME` for each private name of a library that the code spells.

    Such a name is imported, read from an imported library, or read from any object although the
    code defines none of that name. `bounded` are the libraries that do not count; an object is
    theirs if the module imports one that spells the name.
    """
    own = {name.partition(".")[0] for name in checkout.modules}
    defined = {it for module in checkout.modules.values() for it in _defined_names(module.tree)}
    return sorted(
        {
            f"{module.path}: {name}"
            for module in checkout.modules.values()
            for name in _private_names(
                module.tree, own | bounded, defined | _spelt(module.text, bounded)
            )
        }
    )


def _spelt(text: str, libraries: Set[str]) -> set[str]:
    """Return the private names in the code of those of the libraries that a module imports."""
    imported = {*re.findall(r"(?m)^(?:from|import) (\w+)", text)} & libraries
    specs = [importlib.util.find_spec(name) for name in sorted(imported)]
    folders = [Path(it) for spec in specs if spec for it in spec.submodule_search_locations or ()]
    files = (path.read_text() for folder in folders for path in folder.rglob("*.py"))
    return {name for text in files for name in re.findall(r"\b_\w+", text)}


def _private_names(tree: ast.Module, uncounted: Set[str], defined: Set[str]) -> Iterator[str]:
    libraries: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                libraries[alias.asname or alias.name.partition(".")[0]] = alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                libraries[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    counted = {it for it in libraries.values() if it.partition(".")[0] not in uncounted}
    yield from (it for it in counted if any(map(_is_private, it.split("."))))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            library = libraries.get(ast.unparse(node.value).partition(".")[0])
            if library in counted or (library is None and node.attr not in defined):
                yield ast.unparse(node)


def _is_private(name: str) -> bool:
    is_special = name.startswith("__") and name.endswith("__")
    return name.startswith("_") and name != "_" and not is_special and name not in DOCUMENTED


def _defined_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.attr if isinstance(node, ast.Attribute) else node.id


def bounded_libraries(root: Path) -> frozenset[str]:
    """Return the packages whose distribution has an upper bound in pyproject.toml."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    bounded = {
        re.split(r"[^A-Za-z0-9._-]", it)[0].lower()
        for it in project["dependencies"]
        if re.search("<|==", it.partition(";")[0])
    }
    return frozenset(
        package
        for package, distributions in packages_distributions().items()
        if any(it.lower() in bounded for it in distributions)
    )


DATA = frozenset({".txt", ".json", ".toml", ".yaml", ".csv", ".jinja"})
"""Endings of files with data that would be Python otherwise."""


def lines_of_python(folders: Sequence[Path]) -> int:
    """Return how many lines the Python files have once ruff has formatted them at 100 columns."""
    with tempfile.TemporaryDirectory() as directory:
        for folder in folders:
            for path in folder.rglob("*.py"):
                copy = Path(directory, path.relative_to(folder.parent))
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)
        ruff = Path(sysconfig.get_path("scripts"), "ruff")
        options = ("--isolated", "--quiet", "--line-length=100", "--target-version=py311")
        subprocess.run([ruff, "format", *options, directory], check=True)
        return _lines(Path(directory).rglob("*.py"))


def _lines(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text().splitlines()) for path in paths)


def _words(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text().split()) for path in paths)


def settings_of(root: Path) -> list[str]:
    """Return the fields of the settings; those of each provider are not among them."""
    tree = ast.parse((root / "app/settings.py").read_text())
    return [
        ast.unparse(field.target)
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name.endswith("Settings")
        for field in node.body
        if isinstance(field, ast.AnnAssign)
    ]


def schema_properties(root: Path) -> int:
    """Return how many properties the schemas of the OpenAPI document have."""
    schemas = json.loads((root / "openapi/openapi.json").read_text())["components"]["schemas"]
    return sum(len(schema.get("properties", {})) for schema in schemas.values())


@dataclass(frozen=True)
class Weight:
    """One figure, and what is counted in it, for `--files`."""

    title: str
    figure: int
    counted: Sequence[str] = ()

    @classmethod
    def of(cls, title: str, counted: Iterable[str]) -> "Weight":
        """Return the weight of what is counted."""
        lines = list(counted)
        return cls(title, len(lines), lines)


def measure(root: Path) -> Iterator[Weight]:
    """Yield what can be measured of a checkout without running it."""
    product, trials = Checkout.read(root, PRODUCT), Checkout.read(root, TRIALS)
    alone = sorted(product.with_one_importer(), key=lambda pair: pair[0].lines)
    shown = [f"{module.lines:4} {module.path} <- {importer}" for module, importer in alone]
    folders = [root / package for package in PRODUCT if (root / package).is_dir()]
    data = sorted(
        it
        for folder in folders
        for it in folder.rglob("*")
        if it.suffix in DATA and "node_modules" not in it.parts
    )
    scripts = sorted(it for folder in folders for it in folder.rglob("*.lua"))
    pages = [it for it in sorted((root / "docs").rglob("*.md")) if "adr" not in it.parts]
    private = private_names(product, bounded_libraries(root))
    small = sum(module.lines < SMALL for module, _ in alone)
    yield Weight("lines of Python", lines_of_python(folders))
    yield Weight.of("files of Python", [it.path for it in product.modules.values()])
    yield Weight("lines of data beside them", _lines(data), _named(data, root))
    yield Weight("lines of Lua", _lines(scripts))
    run = [it for it in scripts if it.parent.name != "shared"]
    yield Weight.of("Lua scripts", _named(run, root))
    yield Weight.of("modules with one importer", shown)
    yield Weight(f"of those, under {SMALL} lines", small)
    yield _repeated("names of public functions in two files", product.repeated_functions())
    yield _repeated("names of public classes in two files", product.repeated_classes())
    yield _repeated("such names in tests and benchmarks", trials.repeated_classes())
    yield Weight.of("methods that only forward", product.forwarding())
    yield Weight.of("settings", settings_of(root))
    yield Weight("schema properties", schema_properties(root))
    yield Weight.of("private names of libraries without an upper bound", private)
    yield Weight("words of README.md", _words([root / "README.md"]))
    yield Weight("words of docs apart from ADRs", _words(pages), _named(pages, root))


def _named(paths: Iterable[Path], root: Path) -> list[str]:
    return [str(it.relative_to(root)) for it in paths]


def _repeated(title: str, found: Mapping[str, Sequence[str]]) -> Weight:
    return Weight.of(title, (f"{name}: {', '.join(paths)}" for name, paths in found.items()))


def exceeded(weights: Iterable[Weight], limits: Mapping[str, int]) -> list[str]:
    """Return a sentence for each figure above its limit, or without one."""
    return [
        f"{it.title}: {it.figure}, limit {limits.get(it.title, 'missing')}"
        for it in weights
        if it.figure > limits.get(it.title, -1)
    ]


def lowered(weights: Iterable[Weight], limits: Mapping[str, int]) -> dict[str, int]:
    """Return the limits that follow: none above its figure, and none above what it was."""
    return {it.title: min(it.figure, limits.get(it.title, it.figure)) for it in weights}


def main() -> None:
    """Print the figures as a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", action="store_true", help="list what is counted")
    parser.add_argument("--root", type=Path, default=HERE.parent.parent, help="another checkout")
    parser.add_argument("--check", action="store_true", help="fail above the limits")
    parser.add_argument("--lower", action="store_true", help="lower the limits to the figures")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    run = Weight.of("files that run for one submission", files_of_one_submission(root, PRODUCT))
    weights = [*measure(root), run]
    limits: dict[str, int] = json.loads(LIMITS.read_text()) if LIMITS.exists() else {}
    print("| | | limit |\n|---|--:|--:|")
    for it in weights:
        print(f"| {it.title} | {it.figure} | {limits.get(it.title, '')} |")
    for it in weights if arguments.files else ():
        if it.counted:
            print("", f"{it.title}:", *it.counted, sep="\n  ")
    if arguments.files:
        rooms = Counter(str(Path(path).parent) for path in run.counted)
        print("\nof these, by room:", *(f"{n:3} {it}" for it, n in rooms.most_common()), sep="\n  ")
    if arguments.lower:
        LIMITS.write_text(json.dumps(lowered(weights, limits), indent=2) + "\n")
    if arguments.check and (excess := exceeded(weights, limits)):
        sys.exit("heavier than benchmarks/structure.json allows:\n" + "\n".join(excess))


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main()
