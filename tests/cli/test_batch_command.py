"""`hone batch`: a file of requests, and a file of results."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.contract.batches import batch_links
from tests.cli.conftest import Run
from tests.cli.scripted_server import CannedResponse, ScriptedApi

ID = "batch_01JD3Y3V3G5ZC1Q6E0M8W2R9TB"
RESULTS = '{"line":1,"custom_id":"a"}\n{"line":2,"custom_id":"b"}\n'
NOW = "2026-01-31T09:00:00Z"


def batch(ended: Any = False, **fields: Any) -> CannedResponse:
    whole: dict[str, Any] = {
        "id": ID,
        "status": "completed" if ended else "running",
        "counts": {"total": 2, "passed": 2} if ended else {"total": 2, "pending": 2},
        "errors": [],
        "waiting": None,
        "metadata": {},
        "created_at": NOW,
        "ended_at": NOW if ended else None,
        "expires_at": None,
        "links": batch_links(ID).model_dump(),
    }
    return CannedResponse(json.dumps(whole | fields), 200)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mails.jsonl"
    path.write_text('{"custom_id":"a","request":{"draft":"x"}}\n')
    return path


def scripted(server: ScriptedApi, submitted: CannedResponse, *later: CannedResponse) -> None:
    server.answers["POST /v1/batches"] = [submitted]
    server.answers[f"GET /v1/batches/{ID}"] = list(later)
    server.answers[f"GET /v1/batches/{ID}/results"] = [
        CannedResponse(RESULTS, 200, "application/jsonl")
    ]


def test_a_file_is_sent_as_it_is_and_its_results_are_written(
    server: ScriptedApi, hone: Run, file: Path
) -> None:
    scripted(server, batch(), batch(ended=True))
    done = hone("batch", str(file))
    assert (done.exit_code, done.stdout) == (0, RESULTS)
    assert f"{ID} completed: 2 passed" in done.stderr
    assert server.asked[0].body == file.read_text()


def test_a_byte_order_mark_is_not_sent(server: ScriptedApi, hone: Run, file: Path) -> None:
    scripted(server, batch(ended=True))
    lines = file.read_text()
    file.write_text(f"\ufeff{lines}")
    assert (hone("batch", str(file)).exit_code, server.asked[0].body) == (0, lines)


def test_refused_lines_and_waits_are_shown_and_the_exit_code_says_that_not_all_passed(
    server: ScriptedApi, hone: Run, file: Path, tmp_path: Path
) -> None:
    error = {"code": "invalid_request", "detail": "/threshold: too high", "errors": []}
    told = {"errors": [{"line": 4, "custom_id": "b", "error": error}]}
    waiting = {"waiting": {"reason": "memory", "detail": "the memory of Redis is nearly full"}}
    counts = {"counts": {"total": 2, "invalid": 1, "passed": 1}}
    scripted(server, batch(**told), batch(**waiting), batch(ended=True, **counts))
    output = tmp_path / "results.jsonl"
    done = hone("batch", str(file), "--output", str(output))
    assert (done.exit_code, output.read_text()) == (3, RESULTS)
    assert "line 4 (b): /threshold: too high" in done.stderr
    assert f"{ID} waits: the memory of Redis is nearly full" in done.stderr
    assert "1 invalid, 1 passed" in done.stderr


def test_the_same_file_has_the_same_key_and_another_one_has_another(
    server: ScriptedApi, hone: Run, file: Path
) -> None:
    scripted(server, batch(ended=True))
    for text in ("one\n", "one\n", "two\n"):
        file.write_text(text)
        assert hone("batch", str(file)).exit_code == 0
    first, again, other = [
        request.key for request in server.asked if request.route == "POST /v1/batches"
    ]
    assert first == again != other


def test_a_file_that_is_not_there_and_a_refusal_are_said(
    server: ScriptedApi, hone: Run, file: Path
) -> None:
    assert "No such file" in hone("batch", f"{file}.jsonl").stderr
    problem = {
        "type": "",
        "title": "The request is invalid",
        "status": 422,
        "detail": "no line",
        "instance": "",
        "code": "invalid_request",
    }
    refused = CannedResponse(json.dumps(problem), 422, "application/problem+json")
    server.answers["POST /v1/batches"] = [refused]
    done = hone("batch", str(file))
    assert (done.exit_code, "no line" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("content", "complaint"), [(b"", "is empty"), (b"{}\n\xff\xfe", "is not UTF-8 text")]
)
def test_a_file_that_has_no_lines_of_text_is_named(
    server: ScriptedApi, hone: Run, tmp_path: Path, content: bytes, complaint: str
) -> None:
    file = tmp_path / "many.jsonl"
    file.write_bytes(content)
    done = hone("batch", str(file))
    assert (done.exit_code, server.asked) == (2, [])
    assert f"many.jsonl {complaint}" in done.stderr


def test_standard_input_is_a_batch_too_and_no_wait_prints_its_id(
    server: ScriptedApi, hone: Run
) -> None:
    scripted(server, batch())
    done = hone("batch", "-", "--no-wait", stdin="one\n")
    assert (done.exit_code, done.stdout, server.asked[0].body) == (0, f"{ID}\n", "one\n")


def test_what_cannot_be_written_in_the_end_is_said_with_what_gets_it(
    server: ScriptedApi, hone: Run, file: Path
) -> None:
    scripted(server, batch(ended=True))
    done = hone("batch", str(file), "--output", "/dev/full")
    assert (done.exit_code, "No space left" in done.stderr) == (1, True)
    assert "The same command goes on with it" in done.stderr


def test_a_file_for_results_that_are_not_waited_for_is_refused(
    server: ScriptedApi, hone: Run, file: Path, tmp_path: Path
) -> None:
    done = hone("batch", str(file), "--no-wait", "--output", str(tmp_path / "results.jsonl"))
    assert (done.exit_code, server.asked) == (2, [])
