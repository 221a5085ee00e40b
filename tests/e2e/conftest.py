"""One running service for all tests that leave it running with its settings, and one browser."""

import shutil
import subprocess
from collections.abc import AsyncIterator
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect
from pydantic import SecretStr
from redis.asyncio import Redis

from app.contract.access import OPERATOR
from app.store.redis import keys
from benchmarks.model_replies import improving
from tests.e2e.running_service import RunningService, running_service
from tests.e2e.sandboxed_worker import MODULE
from tests.local_endpoint import SECRET, THIS_MACHINE
from tests.waiting import TIMEOUT_S

ROOT = Path(__file__).parent.parent.parent
TYPESCRIPT = ROOT / "clients" / "typescript"
TSC = "node_modules/typescript/bin/tsc"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of this folder on one event loop: the shared service's client lives on it."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_service(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[RunningService]:
    """A service whose worker may call endpoints on this machine, and runs tests of drafts."""
    async with running_service(
        tmp_path_factory.mktemp("service"),
        worker_module=MODULE,
        python_tests=True,
        outbound_allow=THIS_MACHINE,
        secret_key=SecretStr(SECRET),
    ) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def service(shared_service: RunningService) -> AsyncIterator[RunningService]:
    """The shared service with the improving model, no call counted, nothing learnt and to work on.

    A test that kills or stops a process, or needs other settings, opens a `running_service`.
    """
    shared_service.models.behaviour = improving
    shared_service.models.reset()
    async with Redis.from_url(shared_service.redis.url, socket_timeout=TIMEOUT_S) as redis:
        await redis.delete(keys.trust(OPERATOR), *await redis.keys(keys.LEARNT + "*"))
    yield shared_service
    await shared_service.erase_unfinished()


def chromium() -> str:
    """Return the path of Chromium; without one the test is skipped."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    return path or pytest.skip("no Chromium here: the package `chromium` of Debian has one")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """A headless Chromium that asks no other host than the one of a test; skipped without one.

    What a test expects of a page has the time that tests have: the 5 s of Playwright are too few
    on a busy machine.
    """
    path = chromium()
    expect.set_options(timeout=1_000 * TIMEOUT_S)
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield launched
        await launched.close()


@pytest.fixture(scope="session")
def compiled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path | str:
    """The client, compiled by the strict compiler for all processes of the run; or why it is not.

    The process that comes first compiles it, the others wait.
    """
    run = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        run = run.parent
    root = run / "typescript"
    with (run / "typescript.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not root.exists():
            attempt = tmp_path_factory.mktemp("typescript")
            if missing := compile_client(attempt):
                return missing
            attempt.rename(root)
    return root / "clients" / "typescript"


def compile_client(root: Path) -> str | None:
    """Compile a copy of the client; return what is missing for that, if anything is."""
    if not shutil.which("npm"):
        return "npm is not installed"
    package = root / "clients" / "typescript"
    ignored = shutil.ignore_patterns("node_modules", "dist")
    shutil.copytree(TYPESCRIPT, package, ignore=ignored)
    shutil.copytree(ROOT / "openapi", root / "openapi")
    installed = run_in(package, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    if installed.returncode:
        return f"npm cannot install its compiler: {installed.stderr[-300:]}"
    done = run_in(package, "node", TSC)
    assert done.returncode == 0, done.stdout
    return None


@pytest.fixture
def package(compiled: Path | str) -> Path:
    """The compiled client; without it the test is skipped."""
    return compiled if isinstance(compiled, Path) else pytest.skip(compiled)


def run_in(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
