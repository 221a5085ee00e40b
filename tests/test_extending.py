"""docs/extending.md works: a package with its files extends a Hone that knows nothing of it."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.model_replies import improving
from benchmarks.model_server import ScriptedModelServer
from tests.installed_package import HONE, environment_with, install_package
from tests.ports import reserved_port
from tests.waiting import TIMEOUT_S

pytestmark = pytest.mark.long

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tests" / "extending" / "hone_ideas"
REQUEST = {
    "task": "Write an invitation to the summer party.",
    "strategy": {"kind": "brainstorm", "ideas": 8},
    "validators": [{"kind": "weekdays", "required": True}],
    "models": {role: {"model": "acme:large"} for role in ("generator", "critic")},
    "max_iterations": 1,
}
READ = """
from workers.models.remote import adapter_of
print(adapter_of("plain")("http://plain", "key").read(b'{"text": "Hello."}').text)
"""
NO_WORKERS = """
import sys, app.main
from app.contract.strategies import STRATEGIES
print("brainstorm" in STRATEGIES, "workers" in sys.modules)
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that pip installed the package into."""
    source, folder = (tmp_path_factory.mktemp(name) for name in ("source", "installed"))
    shutil.copytree(PACKAGE, source, dirs_exist_ok=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    own = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder), str(source)]
    subprocess.run([*pip, *own], check=True, timeout=TIMEOUT_S)
    return folder


@asynccontextmanager
async def serving(data: Path, **variables: str) -> AsyncIterator[httpx.AsyncClient]:
    with reserved_port() as port:
        places = {"HONE_PORT": str(port), "HONE_DATA_DIR": str(data)}
        server = subprocess.Popen([*HONE, "serve"], env=variables | places)  # noqa: ASYNC220
        url = f"http://127.0.0.1:{port}"
        try:
            async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
                yield client
        finally:
            server.terminate()
            server.wait(TIMEOUT_S)


async def _ready(client: httpx.AsyncClient, path: str) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            with suppress(httpx.TransportError):
                if (await client.get(path)).is_success:
                    return
            await asyncio.sleep(0.1)


async def played(client: httpx.AsyncClient) -> Any:
    await _ready(client, "/readyz")
    async with asyncio.timeout(TIMEOUT_S):
        made = await client.post("/v1/refinements", json=REQUEST)
        assert made.status_code == 202, made.text
        while True:
            now = (await client.get(made.headers["Location"])).json()
            if now["status"] in ("succeeded", "failed"):
                return now
            await asyncio.sleep(0.1)


async def test_a_package_adds_a_strategy_a_validator_a_provider_and_a_route(
    package: Path, tmp_path: Path
) -> None:
    async with ScriptedModelServer(improving) as models:
        variables = {"HONE_ACME_BASE_URL": models.url, "ACME_API_KEY": "key-1"}
        variables |= environment_with(package)
        async with serving(tmp_path, **variables) as client:
            ended = await played(client)
            offered = {
                what: {it["kind"] for it in (await client.get(f"/v1/{what}")).json()["data"]}
                for what in ("strategies", "validators")
            }
            described = (await client.get("/openapi.json")).json()
            topics = await client.get("/ideas/topics")
            journal = (await client.get(f"/v1/refinements/{ended['id']}/iterations")).json()
    assert ended["status"] == "succeeded", ended
    assert ended["usage"]["calls"] == 3
    (judged,) = journal["data"]
    assert [it["kind"] for it in judged["findings"] if it["kind"] == "weekdays"] == ["weekdays"]
    assert "brainstorm" in offered["strategies"]
    assert "weekdays" in offered["validators"]
    assert {"BrainstormStrategy", "WeekdaysValidator"} <= described["components"]["schemas"].keys()
    assert "/ideas/topics" in described["paths"]
    assert (topics.status_code, topics.json()) == (200, ["a summer party"])


async def test_a_route_that_a_package_adds_needs_a_key_where_the_others_do(
    package: Path, tmp_path: Path
) -> None:
    variables = {"HONE_AUTH": "required"} | environment_with(package)
    async with serving(tmp_path, **variables) as client:
        await _ready(client, "/healthz")
        assert (await client.get("/ideas/topics")).status_code == 401


@pytest.mark.parametrize(
    ("code", "printed"), [(READ, "Hello.\n"), (NO_WORKERS, "True False\n")], ids=["wire", "app"]
)
def test_a_worker_has_its_wire_format_and_an_api_process_no_workers(
    code: str, printed: str, package: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment_with(package),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.stdout == printed, done.stderr


STRATEGY = """
from typing import ClassVar, Literal
from app.contract.strategies import Strategy
class MineStrategy(Strategy):
    "Mine."
    kind: Literal["{0}"]
    needs_language: ClassVar[None] = None
    judges_criteria: ClassVar[bool] = True
    def calls(self, rates, max_iterations, draft): return rates.ask
"""
VALIDATOR = """
from typing import Literal
from app.contract.validators import SANDBOX, Validator
class MineValidator(Validator):
    "Mine."
    kind: Literal["{0}"]
    needs = {1}
    def can_fix(self): return {2}
"""
PROVIDER = """
from app.contract.providers import Provider
mine = Provider(name="{0}", wire="{1}", base_url="http://mine", needs_key=False)
"""
LOCAL = """
from app.contract.providers import Provider
mine = Provider(name="mine")
"""
ROUTER = """
from fastapi import APIRouter
router = APIRouter(prefix="/v1")
@router.get("{0}")
def mine(): ...
"""
BROKEN = {  # what a package declares, and what is wrong with it
    "error": ("contract: strategies.mine", "1 / 0", "ZeroDivisionError: division by zero"),
    "exit": ("contract: strategies.mine", "raise SystemExit(0)", "SystemExit: 0"),
    "empty": ("contract: strategies.mine", "", "the module declares none of the strategies"),
    "module": ("contract: strategies.parts", "", "Hone has strategies.parts: choose another name"),
    "room": ("contract: strategy.mine", "", "strategies.NAME"),
    "strategy": (
        "contract: strategies.mine",
        STRATEGY.format("iterative"),
        "two strategies have the name iterative: choose another name",
    ),
    "validator": (
        "contract: validators.mine",
        VALIDATOR.format("length", None, False),
        "two validators have the name length: choose another name",
    ),
    "provider": (
        "contract: providers.mine",
        PROVIDER.format("openai", "openai"),
        "two providers have the name openai: choose another name",
    ),
    "router": ("routes: mine", "", "expected APIRouter, not module"),
}
BROKEN_PLAY = {
    "undeclared": ("", "", "no package declares it in hone.contract"),
    "exit": (STRATEGY.format("mine"), "raise SystemExit(0)", "SystemExit: 0"),
    "unplayed": (STRATEGY.format("other"), "", "hone.play has no entry point strategies.other"),
    "synchronous": (
        STRATEGY.format("mine"),
        "def mine(task, limits, plan): ...",
        "broken_play has no coroutine function mine",
    ),
    "unchecked": (VALIDATOR.format("mine", None, False), "", "no plain function check_mine"),
    "blocking": (
        VALIDATOR.format("mine", "SANDBOX", False),
        "def check_mine(validator, draft): ...",
        "broken_play has no coroutine function check_mine",
    ),
    "unfixed": (
        VALIDATOR.format("mine", None, True),
        "def check_mine(validator, draft): ...",
        "broken_play has no function fix_mine",
    ),
    "local": (LOCAL, "", "only models of Hone itself run in the worker: name a wire"),
    "wire": (PROVIDER.format("mine", "mine"), "", "hone.play has no entry point models.mine"),
}
WORK = [sys.executable, "-m", "workers"]


def started_with(folder: Path, *command: str) -> str:
    """Return what a start that fails says."""
    failed = subprocess.run(
        command,
        env=environment_with(folder)
        | {"HONE_LOG_FORMAT": "text", "HONE_DATA_DIR": str(folder / "data")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert failed.returncode == 1, failed.stdout
    assert "Traceback" not in failed.stdout
    return failed.stdout


@pytest.mark.parametrize(("place", "source", "why"), BROKEN.values(), ids=BROKEN)
def test_a_package_that_cannot_be_loaded_stops_the_start_and_is_named(
    place: str, source: str, why: str, tmp_path: Path
) -> None:
    group, entry = place.split(": ")
    points = {f"hone.{group}": {entry: "broken_plugin"}}
    install_package(tmp_path, "hone-broken", points, broken_plugin=source)
    said = started_with(tmp_path, *HONE, "serve")
    assert f"the installed package hone-broken (hone.{place} = broken_plugin): " in said
    assert why in said


@pytest.mark.parametrize(("source", "play", "why"), BROKEN_PLAY.values(), ids=BROKEN_PLAY)
def test_a_package_that_does_not_play_what_it_declares_stops_a_worker(
    source: str, play: str, why: str, tmp_path: Path
) -> None:
    room = next((it for it in ("validators", "providers") if f".{it} " in source), "strategies")
    points = {"hone.contract": {f"{room}.mine": "broken_plugin"}} if source else {}
    if room != "providers" and "other" not in source:
        points["hone.play"] = {f"{room}.mine": "broken_play"}
    modules = {"broken_plugin": source, "broken_play": play}
    install_package(tmp_path, "hone-broken", points, **modules)
    said = started_with(tmp_path, *WORK)
    assert "cannot start: the installed package hone-broken (hone." in said
    assert why in said


def test_two_packages_with_one_name_are_both_named(tmp_path: Path) -> None:
    for package in ("hone-one", "hone-two"):
        points = {"hone.contract": {"strategies.mine": "mine"}}
        install_package(tmp_path, package, points, mine=STRATEGY.format("mine"))
    said = started_with(tmp_path, *HONE, "serve")
    assert "the installed package hone-" in said
    assert ": the package hone-" in said
    assert "has strategies.mine: choose another name" in said


@pytest.mark.parametrize(
    ("path", "taken"),
    [("/refinements/ideas", "/v1/refinements/ideas"), ("/ideas/{name}", "/v1/ideas/{name}")],
)
def test_a_route_that_would_never_be_reached_stops_the_start(
    path: str, taken: str, tmp_path: Path
) -> None:
    first = {"hone.routes": {"first": "first:router"}}
    install_package(tmp_path, "hone-first", first, first=ROUTER.format("/ideas/{number}"))
    second = {"hone.routes": {"second": "second:router"}}
    install_package(tmp_path, "hone-second", second, second=ROUTER.format(path))
    said = started_with(tmp_path, *HONE, "serve")
    assert f"GET {taken} is answered already: name another path" in said


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.*")), ids=lambda it: it.name)
def test_the_page_shows_the_files_of_the_package_or_leads_to_them(file: Path) -> None:
    page = (ROOT / "docs" / "extending.md").read_text()
    is_linked = f"(../{file.relative_to(ROOT)})" in page
    assert file.name == "__init__.py" or is_linked or f"\n{file.read_text()}```" in page
