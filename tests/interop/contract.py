"""Other people's tools read the OpenAPI document: a generator of clients, and two linters."""

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.e2e.running_service import running_service
from tests.interop.environment import ENVIRONMENTS, CannotInstall, environment_with

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "openapi" / "openapi.json"
PROGRAM = Path(__file__).with_name("client_program.py")
LINTERS = ("@stoplight/spectral-cli", "@redocly/cli")


async def play(folder: Path) -> bool:
    """Generate a client and submit, poll and read with it; print one line."""
    python = await asyncio.to_thread(environment_with, "client", "openapi-python-client", "ruff")
    await asyncio.to_thread(_generate, python, folder)
    async with running_service(folder) as service:
        ran = await asyncio.to_thread(
            subprocess.run,
            [str(python), str(PROGRAM), str(service.client.base_url)],
            env={**os.environ, "PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
    print(f"openapi-python-client: {ran.stdout.strip() or ran.stderr.strip()}")
    return ran.returncode == 0 and ran.stdout.startswith("succeeded")


def _generate(python: Path, folder: Path) -> None:
    made = folder / "hone_client"
    options = ["--path", str(DOCUMENT), "--output-path", str(made), "--meta", "none"]
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
    programs = _installed()
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


def _installed() -> Path:
    """Return the folder with the linters; raise CannotInstall."""
    npm = shutil.which("npm")
    if npm is None:
        raise CannotInstall("npm is not installed")
    folder = ENVIRONMENTS / "linters"
    folder.mkdir(parents=True, exist_ok=True)
    install = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), *LINTERS]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotInstall(done.stderr.strip().splitlines()[-1] if done.stderr else "npm failed")
    return folder / "node_modules" / ".bin"


def _json(command: list[str]) -> Any:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    start = min(at for at in (ran.stdout.find("["), ran.stdout.find("{")) if at >= 0)
    return json.JSONDecoder().raw_decode(ran.stdout[start:])[0]
