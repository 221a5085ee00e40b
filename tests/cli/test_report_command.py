"""`hone report`: on the terminal or in a file."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.scripted_refinement import ID
from tests.cli.scripted_server import CannedResponse, ScriptedApi

MARKDOWN = CannedResponse("# Refinement\n\nA \x1b[31mtext.\n", media_type="text/markdown")
ROUTE = f"GET /v1/refinements/{ID}/report"
PAGE = CannedResponse("<!doctype html>\n<p>é</p>\n", media_type="text/html")


def test_the_report_is_printed_as_markdown_without_escapes(server: ScriptedApi, hone: Run) -> None:
    server.answers[ROUTE] = [MARKDOWN]
    assert hone("report", ID).stdout == "# Refinement\n\nA \ufffd[31mtext.\n"


def test_a_file_that_cannot_be_written_is_said_to_be(
    server: ScriptedApi, hone: Run, tmp_path: Path
) -> None:
    server.answers[ROUTE] = [MARKDOWN]
    done = hone("report", ID, "--output", str(tmp_path / "no" / "report.md"))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "is not a directory" in done.stderr


@pytest.mark.parametrize("answer", [CannedResponse("{}"), PAGE])
def test_what_answers_with_something_else_is_not_hone(
    server: ScriptedApi, hone: Run, answer: CannedResponse
) -> None:
    server.answers[ROUTE] = [answer]
    assert hone("report", ID).exit_code == 1
