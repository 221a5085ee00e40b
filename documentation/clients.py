"""The pages on the two clients, from their docstrings and comments."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

INSTALL = "How to install it, and what it does by itself: [clients](../clients.md)."
EXPORT = re.compile(r"export (?:async )?(function|class|interface|type|const) (\w+)")
PASSED_ON = re.compile(r"export (?:type )?(\*|\{.*\}) from '\./(\w+)\.js'")
METHOD = re.compile(r"  (?:async )?(\*?(\w+)\(.*)")
LONGEST = 88
ELSEWHERE = {"async_client", "models", "params"}
"""Modules whose classes are on the page in words, or are the objects of the HTTP API."""


def python(package: Path) -> str:
    """Return the page of the Python client: what the package exports, in the order of its files."""
    lines = ["# Python client", "", INSTALL, ""]
    lines += ["`AsyncHone` has the methods of `Hone`, with `await`.", ""]
    for module, exported in _exports(package / "__init__.py"):
        for node in ast.parse((package / f"{module}.py").read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name in exported:
                lines += [f"## {node.name}", "", *_function(node)]
            elif isinstance(node, ast.ClassDef) and node.name in exported:
                lines += [f"## {node.name}", "", *_class(node)]
    return "\n".join(lines)


def _exports(init: Path) -> Iterator[tuple[str, set[str]]]:
    """Yield each module from which a package exports, with the names of what it does."""
    for node in ast.parse(init.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            module = node.module.partition(".")[2]
            if module not in ELSEWHERE:
                yield module, {it.name for it in node.names}


def _class(node: ast.ClassDef) -> Iterator[str]:
    bases = ", ".join(ast.unparse(it) for it in node.bases).replace("_Ended", "HoneError")
    fields = [f"    {ast.unparse(it)}" for it in node.body if isinstance(it, ast.AnnAssign)]
    yield from ("```python", f"class {node.name}({bases})".replace("()", ""), *fields, "```", "")
    yield from (ast.get_docstring(node) or "", "")
    for it in node.body:
        if not isinstance(it, ast.FunctionDef) or node.name != "Hone":
            continue
        if it.name == "__init__" or not it.name.startswith("_"):
            yield from (f"### {it.name.replace('__init__', 'Hone()')}", "", *_function(it))


def _function(node: ast.FunctionDef) -> Iterator[str]:
    """Yield the signature, an argument on each line if it is long, and the docstring."""
    answer = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    name = node.name.replace("__init__", "Hone")
    node.args.args = [it for it in node.args.args if it.arg != "self"]
    arguments = re.sub(r"(: [^,=]+)=", r"\1 = ", ast.unparse(node.args))
    if len(arguments) + len(name) + len(answer) > LONGEST:
        outside = re.split(r", (?![^\[\]()]*[\])])", arguments)
        arguments = "\n    " + ",\n    ".join(outside) + ",\n"
    yield from ("```python", f"{name}({arguments}){answer}", "```", "")
    yield from (ast.get_docstring(node) or "", "")


def typescript(sources: Path) -> str:
    """Return the page of the TypeScript client: what the package exports, file by file."""
    lines = ["# TypeScript client", "", INSTALL, ""]
    passed_on = PASSED_ON.findall((sources / "index.ts").read_text(encoding="utf-8"))
    for names, name in [("*", "index"), *passed_on]:
        text = (sources / f"{name}.ts").read_text(encoding="utf-8").splitlines()
        for at, line in enumerate(text):
            found = EXPORT.match(line)
            if found and (names == "*" or found[2] in re.findall(r"\w+", names)):
                kind, exported = found.groups()
                lines += [f"## {exported}", "", _comment_before(text, at), ""]
                lines += _declaration(text[at:], kind)
                if exported == "Hone":
                    lines += _methods(text[at:])
    return "\n".join(lines)


def _declaration(text: list[str], kind: str) -> list[str]:
    """Return the whole of an interface or type, and the head of a class or function."""
    opens = kind in {"class", "function"}
    ends = (
        it for it, line in enumerate(text) if re.search(r"\{\}?$" if opens else r"^\}|;$", line)
    )
    end = next(ends)
    if kind == "interface" and text[0].endswith("{"):
        end = next(it for it, line in enumerate(text) if line == "}")
    head = "\n".join(text[: end + 1])
    head = re.sub(r" \{\}?$", "", head) if opens else head
    return ["```ts", head.removeprefix("export "), "```", ""]


def _methods(text: list[str]) -> Iterator[str]:
    for at, line in enumerate(text[: text.index("}")]):
        found = METHOD.match(line)
        if found and text[at - 1].endswith("*/") and "#" not in line:
            end = next(it for it in range(at, len(text)) if text[it].endswith("{"))
            signature = "\n".join(it[2:] for it in text[at : end + 1])[:-2]
            yield from (f"### {found[2]}", "", "```ts", signature, "```", "")
            yield from (_comment_before(text, at), "")


def _comment_before(text: list[str], at: int) -> str:
    """Return the comment that ends on the line before, without its asterisks; empty if none."""
    if not text[at - 1].endswith("*/"):
        return ""
    begin = next(it for it in range(at - 1, -1, -1) if text[it].lstrip().startswith("/**"))
    lines = (re.sub(r"^\s*(/\*\*|\*/|\*)? ?| ?\*/$", "", it) for it in text[begin:at])
    return "\n".join(lines).strip()
