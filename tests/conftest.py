"""Every run of the tests is alike: a Redis of its own, and nothing of the caller's environment."""

import faulthandler
import gc
import os
import signal
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import redis.utils
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from redis import Redis

from app.local.embedded import EmbeddedRedis, RedisNotFound, find_redis
from tests.servers import MISSING, find_oldest
from tests.waiting import TIMEOUT_S

# Examples that tests put into a copy of the repository.
collect_ignore = ["extending"]

ROOT = Path(__file__).parent.parent
READ_BY_SETTINGS = ("HONE_", "OPENAI_", "ANTHROPIC_")
STDERR = pytest.StashKey[int]()  # of the process itself, which pytest captures during tests
FAILED = pytest.StashKey[set[str]]()
DEFAULT_HANDLERS: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}


def pytest_xdist_auto_num_workers() -> int:
    """Two processes more than cores: two fifths of the time, tests wait for what they started."""
    return len(os.sched_getaffinity(0)) + 2


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the tests that take long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes long, unless it was asked for or named on the command line.

    What needs a whole service comes first, and so into one process: each that runs some of these
    tests starts a service and a browser of its own.
    """
    items.sort(key=lambda it: not it.nodeid.startswith("tests/e2e/"))
    if config.getoption("--long") or any(".py" in it for it in config.args):
        return
    long = [it for it in items if it.get_closest_marker("long")]
    items[:] = [it for it in items if not it.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without the garbage collector, and keep them out of its later passes.

    All that is made here stays until the end: half a million objects, which the collector would
    look at again and again for two thirds of this time, in every process.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Drop what the caller's shell gave this process, for it and for all that tests start.

    That is the variables and the `.env` that Settings reads, and ignored signals: a shell that
    starts the run in the background has it ignore SIGINT. It is also every certificate that this
    machine trusts: no test needs one, and each HTTP client would read them all, for longer than
    most tests take.
    """
    # How fast this machine is today says nothing about the code.
    settings.register_profile(
        "hone",
        max_examples=50 if config.getoption("long") else 20,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        database=DirectoryBasedExampleDatabase(ROOT / ".hypothesis" / "examples"),
    )
    settings.load_profile("hone")
    config.stash[STDERR] = os.dup(2)
    dropped = (*READ_BY_SETTINGS, "SSL_CERT_FILE")
    for name in [name for name in os.environ if name.upper().startswith(dropped)]:
        del os.environ[name]
    look_up_once()
    for number, handler in DEFAULT_HANDLERS.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    if config.getoption("dist", "no") != "no":
        return  # it only starts processes that run tests, and they find pyproject.toml from here
    empty = TemporaryDirectory(prefix="hone-tests-")
    config.add_cleanup(empty.cleanup)
    config.add_cleanup(lambda: os.chdir(config.invocation_params.dir))
    os.chdir(empty.name)
    os.environ["SSL_CERT_DIR"] = empty.name


def look_up_once() -> None:
    """Keep what httpcore looks up for each request, and redis for each connection.

    The former is a package that is not installed, the latter the number of its own version; both
    search the file system. In tests these take longer than what is sent.
    """
    sys.modules["sniffio"] = None  # type: ignore[assignment]  # not found without a search
    redis.utils.get_lib_version = cache(redis.utils.get_lib_version)


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """End a process whose test failed and does not come to its end.

    A failure stops pytest's own limit, and what the test left running may be waited for.
    """
    limit = float(item.config.getini("faulthandler_timeout"))
    faulthandler.dump_traceback_later(limit, exit=True, file=item.config.stash[STDERR])


def pytest_report_teststatus(report: pytest.TestReport, config: pytest.Config) -> None:
    """Name what failed at once: a run that is cut off writes no summary."""
    named = config.stash.setdefault(FAILED, set())
    is_one_of_several = hasattr(config, "workerinput")
    if report.failed and report.nodeid not in named and not is_one_of_several:
        named.add(report.nodeid)
        os.write(config.stash[STDERR], f"\nfailed: {report.nodeid} ({report.when})\n".encode())


def pytest_report_header() -> str:
    try:
        chosen = str(find_redis().version)
    except RedisNotFound as error:
        chosen = str(error)
    oldest = find_oldest()
    return f"server: {chosen}; tests/store also on: {oldest.version if oldest else MISSING}"


@pytest.fixture(scope="session")
def redis_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedRedis]:
    """One server per test process, its AOF off for speed; a parameter is what finds its binary."""
    binary = getattr(request, "param", find_redis)()
    with EmbeddedRedis(tmp_path_factory.mktemp("redis"), aof=False, binary=binary) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: EmbeddedRedis) -> str:
    """The address of that server, with nothing in it."""
    with Redis.from_url(redis_server.url, socket_timeout=TIMEOUT_S) as client:
        client.flushall()
    return redis_server.url
