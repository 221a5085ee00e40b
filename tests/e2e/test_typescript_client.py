"""The TypeScript client in Node, with a real service. Skipped where npm installs no packages."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from app.cli.processes import url_of
from app.contract import errors
from tests.e2e.conftest import ROOT, TYPESCRIPT, run_in
from tests.e2e.running_service import RunningService
from tests.e2e.scripted_models import hanging_at

SCRIPT = Path(__file__).parent / "typescript_client.mjs"


async def play(package: Path, scene: str, url: str = "") -> asyncio.subprocess.Process:
    index = str(package / "dist" / "index.js")
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        "node", SCRIPT, index, url, scene, stdin=pipe, stdout=pipe, stderr=pipe
    )


async def said(process: asyncio.subprocess.Process) -> object:
    assert process.stdout
    assert process.stderr
    line = await process.stdout.readline()
    assert line, (await process.stderr.read()).decode()
    return json.loads(line)


@pytest.mark.long
def test_its_types_are_those_of_the_server(package: Path) -> None:
    assert run_in(package, "node", "generate.mjs", "--check").returncode == 0, (
        "run npm run generate"
    )


def test_its_types_have_the_fields_of_the_server_and_what_is_said_of_them() -> None:
    document = json.loads((ROOT / "openapi" / "openapi.json").read_text(encoding="utf-8"))
    described = {
        name: it["properties"]
        for name, it in document["components"]["schemas"].items()
        if it.get("properties")
    }
    written = (TYPESCRIPT / "src" / "schema.ts").read_text(encoding="utf-8")
    types = re.findall(r"(?ms)^ {8}(\w+): \{$(.*?)^ {8}\}", written)
    fields = {name: re.findall(r"(?m)^ {12}(\w+)\??: ", within) for name, within in types}
    assert fields == {name: [*properties] for name, properties in described.items()}
    in_one_line = " ".join(re.sub(r"(?m)^ *\*(?= |$)", "", written).split())
    for properties in described.values():
        for it in properties.values():
            assert " ".join(it.get("description", "").split()) in in_one_line


def test_every_error_of_the_server_has_a_class_in_typescript() -> None:
    found = [getattr(it, "code", None) for it in vars(errors).values() if isinstance(it, type)]
    known = re.findall(
        r"^  (\w+): \w+,$", (TYPESCRIPT / "src" / "errors.ts").read_text(), re.MULTILINE
    )
    assert {it for it in found if isinstance(it, str)} - set(known) == {"internal"}


@pytest.mark.long
@pytest.mark.parametrize("scene", ["verifies", "repeats", "distrusts", "ends", "watches"])
async def test_it_does_without_a_service_what_its_scene_says(package: Path, scene: str) -> None:
    process = await play(package, scene)
    assert await said(process) == scene
    await process.communicate()


@pytest.mark.long
async def test_it_steers(package: Path, service: RunningService) -> None:
    service.models.behaviour = hanging_at("iterations/2/revise")
    process = await play(package, "steers", url_of(service.settings))
    assert await said(process) == "steered"
    await process.communicate()


@pytest.mark.long
async def test_an_answer_that_breaks_off_is_asked_for_again(
    package: Path, service: RunningService
) -> None:
    process = await play(package, "outlasts", url_of(service.settings))
    assert await said(process) == "outlasted"
    await process.communicate()
