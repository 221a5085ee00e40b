"""Other people's tools read the OpenAPI document: three generators, and two linters."""

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.environments import environment_with, node_modules_with
from tests.e2e.running_service import running_service

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "openapi" / "openapi.json"
PROGRAM = Path(__file__).with_name("client_program.py")
PROGRAM_IN_TYPESCRIPT = PROGRAM.with_suffix(".ts")
LINTERS = ("@stoplight/spectral-cli", "@redocly/cli")
PROGRAM_OF_TYPES = PROGRAM.with_name("typed_requests.ts")
TYPESCRIPT = ("@hey-api/openapi-ts", "openapi-typescript", "typescript@5", "@types/node")
"""The generator does not run with TypeScript 6 and later, which have another API."""

KNOWN_TO_PYTHON = {
    "application/jsonl": "application/octet-stream",
    "application/*": "application/json",
}
"""The generator knows neither JSON Lines nor ranges of media types."""

COMPILER_OPTIONS = (
    *("--strict", "--noUncheckedIndexedAccess", "--target", "es2022"),
    *("--module", "commonjs", "--moduleResolution", "node10"),
)


async def play(folder: Path) -> bool:
    """Generate a client and submit, poll and read with it; print one line."""
    python = await asyncio.to_thread(environment_with, "client", "openapi-python-client", "ruff")
    await asyncio.to_thread(_generate, python, folder)
    return await _run("openapi-python-client", folder, [str(python), str(PROGRAM)])


async def play_in_typescript(folder: Path) -> bool:
    """Generate a client in TypeScript, compile it strictly, and submit, poll and read with it."""
    compiled = await asyncio.to_thread(_compiled, folder)
    return await _run("@hey-api/openapi-ts", folder, ["node", str(compiled)])


async def _run(name: str, folder: Path, program: list[str]) -> bool:
    """Run a program with the address of a service; print one line."""
    async with running_service(folder) as service:
        ran = await asyncio.to_thread(
            subprocess.run,
            [*program, str(service.client.base_url)],
            env={**os.environ, "PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
    print(f"{name}: {ran.stdout.strip() or ran.stderr.strip()}")
    return ran.returncode == 0 and ran.stdout.startswith("succeeded")


def _compiled(folder: Path) -> Path:
    """Return the program in JavaScript, with the client that was generated for it."""
    programs = node_modules_with("typescript", *TYPESCRIPT) / ".bin"
    source = Path(shutil.copy(PROGRAM_IN_TYPESCRIPT, folder))
    generate = [str(programs / "openapi-ts"), "--input", str(DOCUMENT), "--silent"]
    _must([*generate, "--no-log-file", "--output", str(folder / "gen")])
    types = ["--types", "node", "--typeRoots", str(programs.parent / "@types")]
    places = [*types, "--outDir", str(folder / "js"), str(source)]
    _must([str(programs / "tsc"), *COMPILER_OPTIONS, *places])
    return folder / "js" / source.with_suffix(".js").name


async def compile_types(folder: Path) -> bool:
    """Write types with the default flags, and compile requests of these types strictly."""
    await asyncio.to_thread(_compile_types, folder)
    print("openapi-typescript: compiled")
    return True


def _compile_types(folder: Path) -> None:
    programs = node_modules_with("typescript", *TYPESCRIPT) / ".bin"
    source = shutil.copy(PROGRAM_OF_TYPES, folder)
    _must([str(programs / "openapi-typescript"), str(DOCUMENT), "-o", str(folder / "types.ts")])
    _must([str(programs / "tsc"), "--strict", "--noEmit", str(source)])


def _must(command: list[str]) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"the client is not complete:\n{ran.stdout}{ran.stderr}")


def _generate(python: Path, folder: Path) -> None:
    made = folder / "hone_client"
    lines = folder / "client.json"
    lines.write_text(json.dumps({"content_type_overrides": KNOWN_TO_PYTHON}))
    options = ["--path", str(DOCUMENT), "--output-path", str(made), "--meta", "none"]
    options += ["--config", str(lines)]
    command = [str(python.with_name("openapi-python-client")), "generate", *options]
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        [*command, "--fail-on-warning"],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise RuntimeError(f"the client is not complete:\n{ran.stdout}{ran.stderr}")


async def lint(folder: Path) -> bool:
    """Let the linters read the document; print one line, and return whether there is no error."""
    return await asyncio.to_thread(_lint, folder)


def _lint(folder: Path) -> bool:
    programs = node_modules_with("linters", *LINTERS) / ".bin"
    rules = folder / "spectral.json"
    rules.write_text('{"extends": ["spectral:oas"]}')
    spectral = [str(programs / "spectral"), "lint", "--format", "json", "--ruleset", str(rules)]
    found = _json([*spectral, str(DOCUMENT)])
    redocly = [str(programs / "redocly"), "lint", "--extends", "recommended", "--format", "json"]
    said = _json([*redocly, str(DOCUMENT)])
    errors = {
        "Spectral": sum(it["severity"] == 0 for it in found),
        "Redocly": said["totals"]["errors"],
    }
    print(", ".join(f"{name}: {count} errors" for name, count in errors.items()))
    return not any(errors.values())


def _json(command: list[str]) -> Any:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    start = min(at for at in (ran.stdout.find("["), ran.stdout.find("{")) if at >= 0)
    return json.JSONDecoder().raw_decode(ran.stdout[start:])[0]
