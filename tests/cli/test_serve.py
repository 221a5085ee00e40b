"""`hone serve`: the whole service in one process tree, for as long as somebody wants it."""

import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.cli.contract_client import ContractClient
from app.cli.processes import is_working
from app.contract.snapshot import Snapshot
from tests.cli.running_command import RunningCommand, running
from tests.ports import reserved_port
from tests.processes import is_alive
from tests.waiting import eventually

pytestmark = pytest.mark.long

MARKED = "Marmalade"
REQUEST: dict[str, Any] = {
    "draft": "In order to utilize the the report, it must be read by you.",
    "task": "Edit.",
}


@contextmanager
def serving(data_dir: Path, port: int, **environment: str) -> Iterator[RunningCommand]:
    variables = {"HONE_DATA_DIR": str(data_dir), "HONE_PORT": str(port), "HONE_GRACE_S": "60"}
    variables["HONE_WORKERS"] = "2"
    with running("serve", **variables | environment) as serve:
        yield serve


@dataclass(frozen=True)
class RunningServe:
    """`hone serve`, with its log in JSON."""

    command: RunningCommand
    data_dir: Path
    port: int


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServe]:
    """One that is ready, for the tests that leave it so. It ends as it should, and says no text."""
    data_dir = tmp_path_factory.mktemp("serve")
    with reserved_port() as port, serving(data_dir, port, HONE_LOG_FORMAT="json") as command:
        assert command.says("Hone is ready")
        yield RunningServe(command, data_dir, port)
        assert command.interrupt() == 0
        assert MARKED not in "\n".join(command.lines)


def refined(port: int) -> Snapshot:
    """Submit one text, and return its final snapshot."""
    with ContractClient(f"http://127.0.0.1:{port}") as client:
        submitted = client.submit(**REQUEST)
        assert eventually(lambda: client.snapshot(submitted.id).status.is_terminal)
        return client.snapshot(submitted.id)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_everything(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path, 0) as serve:
        assert serve.says("Hone is ready: http://127.0.0.1:")
        port = int(re.findall(r"ready: http://127.0.0.1:(\d+)", "\n".join(serve.lines))[0])
        assert refined(port).status == "succeeded"
        assert serve.interrupt(number) == 0
        assert serve.left() == []


def test_a_second_one_on_the_same_data_is_refused_with_the_pid_of_the_first(
    serve: RunningServe,
) -> None:
    holder = serve.command.named("redis.sock")
    with serving(serve.data_dir, 0) as second:
        assert second.end() == 1
        assert second.says(f"(pid {holder})")


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with serving(tmp_path, port) as serve:
            assert serve.end() == 1
            assert serve.says(f"cannot listen on 127.0.0.1, port {port}")


def test_what_is_killed_comes_back_and_goes_on(serve: RunningServe) -> None:
    before = refined(serve.port)
    with ContractClient(f"http://127.0.0.1:{serve.port}") as client:
        killed = [serve.command.named(it) for it in ("redis.sock", "workers", "app.cli api")]
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: not any(map(is_alive, killed)))
        assert eventually(lambda: is_working(client.readiness()))
        assert client.snapshot(before.id) == before
        assert refined(serve.port).status == "succeeded"


def test_a_redis_that_is_named_is_used_and_left_running(tmp_path: Path, redis_url: str) -> None:
    with reserved_port() as port, serving(tmp_path, port, HONE_REDIS_URL=redis_url) as serve:
        assert serve.says("Hone is ready")
        assert refined(port).status == "succeeded"
        # API, workers, their supervisor and fork servers
        assert eventually(lambda: len(serve.family()) == 6)
        assert serve.interrupt() == 0
    assert not (tmp_path / "redis").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only for root a worker refuses to run tests")
def test_a_worker_that_cannot_start_ends_the_service_with_the_reason(tmp_path: Path) -> None:
    with serving(tmp_path, 0, HONE_PYTHON_TESTS="true") as serve:
        assert serve.end() == 1
        assert serve.says("a worker that runs drafts must not be root")
        assert serve.says("the worker cannot start")
        assert not serve.says("Hone is ready")
        assert serve.left() == []


def test_the_log_says_what_happened_and_no_text_of_a_user(serve: RunningServe) -> None:
    with ContractClient(f"http://127.0.0.1:{serve.port}") as client:
        body: dict[str, Any] = {
            "task": f"Edit it, {MARKED}.",
            "draft": f"In order to utilize the {MARKED} report, it must be read by you.",
            "criteria": [{"name": "readability", "description": f"{MARKED}?"}],
            "metadata": {"name": MARKED},
            "locked": [MARKED],
        }
        submitted = client.submit(**body)
        assert eventually(lambda: client.snapshot(submitted.id).status.is_terminal)

    def logged(message: str) -> list[Any]:
        lines = [json.loads(line) for line in serve.command.lines if line.startswith("{")]
        return [line for line in lines if line["message"] == message]

    def about_it(message: str) -> list[Any]:
        return [record for record in logged(message) if record.get("refinement") == submitted.id]

    assert eventually(lambda: bool(about_it("refinement ended") and about_it("request")))
    (ended,) = about_it("refinement ended")
    assert ended["process"] == "worker"
    assert {"status", "stop_reason", "score", "calls", "cost_usd", "seconds"} <= ended.keys()
    assert {record["process"] for record in logged("request")} == {"api"}
    assert MARKED not in "\n".join(serve.command.lines)
