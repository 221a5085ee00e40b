"""`hone api | worker | openapi`."""

import json
from pathlib import Path

import pytest

from app.main import create_app
from app.settings import Settings
from tests.cli.conftest import Run
from tests.cli.running_command import running


def test_openapi_is_the_document_of_the_api(hone: Run, tmp_path: Path) -> None:
    printed = hone("openapi").stdout
    assert json.loads(printed) == create_app(Settings()).openapi()
    written = tmp_path / "openapi.json"
    assert hone("openapi", "--out", str(written)).stdout == ""
    assert written.read_text(encoding="utf-8") == printed
    refused = hone("openapi", "--out", str(tmp_path / "nowhere" / "openapi.json"))
    assert (refused.exit_code, "nowhere is not a directory" in refused.stderr) == (2, True)


@pytest.mark.parametrize("command", ["api", "worker"])
def test_without_a_redis_it_says_what_is_missing(command: str) -> None:
    with running(command) as process:
        assert process.end() == 1
        assert process.says("HONE_REDIS_URL is not set")


def test_an_api_serves_what_a_worker_works_on(redis_url: str) -> None:
    with (
        running("api", HONE_REDIS_URL=redis_url, HONE_PORT="0") as api,
        running("worker", HONE_REDIS_URL=redis_url, HONE_GRACE_S="60") as worker,
    ):
        assert api.says("Uvicorn running on http://127.0.0.1:")
        assert worker.says("refinements at once")
        assert api.interrupt() == 0
        assert worker.interrupt() == 0


def test_top_says_where_to_look_instead(hone: Run) -> None:
    for options in ((), ("--json",), ("--once", "--rows", "3")):
        done = hone("top", *options)
        assert (done.exit_code, done.stdout) == (2, "")
        assert "hone list" in done.stderr
