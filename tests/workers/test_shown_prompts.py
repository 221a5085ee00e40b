"""`python -m workers prompts FILE` shows what models would be told."""

import json
from pathlib import Path

import pytest

from workers.__main__ import run_command


def test_the_prompts_of_a_request_are_written_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "request.json"
    request = json.dumps({"task": "Explain refunds.", "draft": "We pay."})
    file.write_text(request, encoding="utf-8-sig")
    assert run_command(["prompts", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "=== critique, version 4, temperature: 0\n--- system\n" in shown
    assert "=== revise, version 6, temperature: the model's\n" in shown
    assert shown.count("\nWe pay.\n</draft ") == 2
    assert shown.count('"additionalProperties": false') >= 1


def test_a_request_that_cannot_be_read_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "request.json"
    file.write_text('{"draft": "We pay.", "tone": 1}')
    assert run_command(["prompts", str(file)]) == 1
    assert "tone" in capsys.readouterr().err
    file.write_text('{"draft": "We pay.",}')
    assert run_command(["prompts", str(file)]) == 1
    assert "trailing comma at line 1 column 21" in capsys.readouterr().err
    assert run_command(["prompts", str(tmp_path / "missing.json")]) == 1
    assert "missing.json" in capsys.readouterr().err


def test_other_arguments_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["prompts"]) == 2
    assert "usage: python -m workers [prompts FILE | call MODEL ...]" in capsys.readouterr().err
