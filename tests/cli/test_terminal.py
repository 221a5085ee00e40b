"""What a terminal shows, what is sent through a pipe, and errors, each said once."""

import json
import os
import pty
import re
import socket
import ssl
import subprocess
import sys

import httpx
import pytest

from app.contract.snapshot import SnapshotPage
from documentation.commands import commands
from hone import ServerUnreachable
from tests.cli.conftest import Run
from tests.cli.scripted_refinement import DIFF, EVENTS, ID, ending, snapshot, stream
from tests.cli.scripted_server import CannedResponse, ScriptedApi
from tests.e2e.terminal_sessions import PAGE

AT = f"GET /v1/refinements/{ID}"
NASTY = ending(final=snapshot(draft="\x1b]0;owned\x07 [bold]x[/bold]"))
COMMAND = (sys.executable, "-m", "app.cli")


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """Run a command whose output and errors go to one terminal; return what it was sent."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        env=os.environ | {"TERM": "xterm", "COLUMNS": "80"} | environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65_536):
            shown += piece
    except OSError:  # Linux reports the end so
        pass
    process.wait()
    os.close(ours)
    return shown.decode()


@pytest.fixture
def nasty(server: ScriptedApi) -> ScriptedApi:
    events = CannedResponse(stream(*EVENTS, NASTY), media_type="text/event-stream")
    server.answers |= {
        f"{AT}/events?deltas=true": [events],
        f"{AT}/events": [events],
        f"{AT}/diff?from=0&to=1": [CannedResponse(DIFF.model_dump_json())],
    }
    return server


@pytest.mark.parametrize("status", [404, 409, 503])
def test_a_result_is_shown_though_what_changed_cannot_be_read(
    nasty: ScriptedApi, status: int
) -> None:
    gone = {"type": "/docs/errors#not_stored", "title": "The text was not stored"}
    problem = json.dumps(gone | {"status": status, "code": "not_stored", "detail": "erased"})
    nasty.answers[f"{AT}/diff?from=0&to=1"] = [CannedResponse(problem, status)]
    shown = on_a_terminal("watch", ID, "--server", nasty.url, NO_COLOR="1")
    assert "[bold]x[/bold]" in shown
    assert "The text was not stored" not in shown


def test_a_terminal_gets_a_table_in_colours_and_no_draft_can_give_it_orders(
    nasty: ScriptedApi,
) -> None:
    shown = on_a_terminal("watch", ID, "--server", nasty.url)
    assert "\x1b[1mclarity" in shown or "clarity" in shown
    assert "\x1b[1;32m0.91" in shown
    assert "\x1b]0;owned" not in shown
    assert "\N{REPLACEMENT CHARACTER}]0;owned\N{REPLACEMENT CHARACTER} [bold]x[/bold]" in shown


@pytest.mark.parametrize("variable", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_without_colours_gets_none(nasty: ScriptedApi, variable: dict[str, str]) -> None:
    shown = on_a_terminal("watch", ID, "--server", nasty.url, **variable)
    assert "0.91" in shown
    assert "What changed from the draft" in shown
    assert "\x1b[1;32m" not in shown
    assert ("\x1b" in shown) == ("TERM" not in variable)


def test_a_long_error_is_wrapped_between_words(server: ScriptedApi) -> None:
    told = {"type": "", "title": "No", "status": 409, "detail": "some words " * 20}
    server.answers[AT] = [CannedResponse(json.dumps(told | {"instance": "", "code": "no"}), 409)]
    shown = on_a_terminal("get", ID, "--server", server.url, COLUMNS="46", NO_COLOR="1")
    assert max(map(len, shown.splitlines())) <= 46
    assert {*shown.split()} == {"Error:", "No:", "some", "words"}


def test_a_reader_that_has_enough_is_no_error(server: ScriptedApi) -> None:
    page = SnapshotPage(data=(snapshot(),) * 100, has_more=True, next_cursor="again")
    server.answers |= {
        f"GET /v1/refinements?result=false&{cursor}limit=100": [
            CannedResponse(page.model_dump_json())
        ]
        for cursor in ("", "cursor=again&")
    }
    command = " ".join([*COMMAND, "list --limit 3000 --server", server.url, "| head -n 1"])
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert (done.stdout.count("\n"), done.stderr) == (1, "")


def refused(cause: OSError) -> str:
    error = httpx.ConnectError("no connection")
    error.__cause__ = cause
    return str(ServerUnreachable("http://hone", error))


def test_the_cause_of_a_failed_connection_is_said_and_what_to_do() -> None:
    untrusted = ssl.SSLCertVerificationError()
    untrusted.verify_message = "self-signed certificate"
    for cause, told in (
        (socket.gaierror(-2, "?"), "the name of the host is not known\nIs HONE_SERVER"),
        (ConnectionRefusedError(111, "?"), "the connection was refused\nIs `hone serve` running"),
        (untrusted, "certificate is not trusted: self-signed certificate\nSSL_CERT_FILE"),
        (OSError(113, "No route"), "no connection"),
    ):
        assert f"http://hone is unreachable: {told}" in refused(cause).replace("its TLS ", "")


def test_a_server_without_tls_is_told_from_one_that_is_away(server: ScriptedApi, hone: Run) -> None:
    done = hone("get", ID, "--server", server.url.replace("http:", "https:"))
    assert done.exit_code == 1
    assert "it does not speak TLS there\nTry http://" in done.stderr


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (CannedResponse("<html>", 200, "text/html"), "is not that of a Hone server"),
        (CannedResponse("<html>", 502, "text/html"), "502 Bad Gateway: the response of"),
        (CannedResponse("{}", 401), "HONE_API_KEY must have a key"),
    ],
)
@pytest.mark.parametrize("command", ["get", "watch"])
def test_what_is_no_answer_of_hone_is_one_error_without_a_traceback(
    server: ScriptedApi, hone: Run, answer: CannedResponse, told: str, command: str
) -> None:
    server.answers |= {AT: [answer], f"{AT}/events": [answer]}
    if command == "watch" and answer.status == 502:
        return  # it waits for a server that restarts
    done = hone(command, ID)
    assert (done.exit_code, done.stdout, done.stderr.count("Error:")) == (1, "", 1)
    assert told in done.stderr


@pytest.mark.parametrize("server_url", ["ftp://here", "http://", "http://[::1"])
def test_an_address_that_is_none_is_said(hone: Run, server_url: str) -> None:
    done = hone("get", ID, "--server", server_url)
    assert (done.exit_code, "is not the URL of a server" in done.stderr) == (2, True)


def test_an_address_may_leave_out_the_scheme(server: ScriptedApi, hone: Run) -> None:
    server.answers[AT] = [CannedResponse(snapshot().model_dump_json())]
    assert hone("get", ID, "--server", server.url.removeprefix("http://")).exit_code == 0


def test_the_version_is_printed(hone: Run) -> None:
    assert hone("--version").stdout.startswith("hone 1.0.0")


def test_help_fits_80_columns_with_every_summary_whole(hone: Run) -> None:
    lines = hone("--help", COLUMNS="80").stdout.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert [line for line in lines if line.endswith("...") and "Usage" not in line] == []
    assert "3 the refinement has another outcome" in " ".join(text.strip() for text in lines)


def test_the_page_about_the_command_line_has_every_command_as_it_is() -> None:
    sessions = PAGE.read_text(encoding="utf-8")
    top = {title.split()[0] for title in re.findall(r"^## `hone (.+)`$", commands(), re.MULTILINE)}
    quiet = {"api", "worker", "webhooks", "openapi", "config", "mcp", "calibration", "rate"}
    # What has a page of its own, or is gone.
    quiet |= {"tenants", "compare", "secrets", "archive", "cells", "top"}
    assert [name for name in top - quiet if f"hone {name}" not in sessions] == []
