"""`hone list | diff | open | delete`, and the completion of shells."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.contract.snapshot import DiffOperation, SnapshotPage
from app.contract.status import Status
from tests.cli.conftest import Run
from tests.cli.scripted_refinement import DIFF, ID, snapshot
from tests.cli.scripted_server import CannedResponse, ScriptedApi

AT = f"/v1/refinements/{ID}"
LIST = "GET /v1/refinements?"


def page(count: int, cursor: str | None) -> CannedResponse:
    data = (snapshot(),) * count
    whole = SnapshotPage(data=data, has_more=cursor is not None, next_cursor=cursor)
    return CannedResponse(whole.model_dump_json())


def test_a_list_goes_through_pages_and_stops_at_its_limit(server: ScriptedApi, hone: Run) -> None:
    server.answers |= {
        f"{LIST}result=false&limit=100": [page(100, "more")],
        f"{LIST}result=false&cursor=more&limit=100": [page(100, "again")],
    }
    done = hone("list", "--limit", "150")
    assert (done.exit_code, len(server.asked)) == (0, 2)
    assert (
        done.stdout.splitlines()
        == [f"{ID}\tsucceeded\t0.91\tpassed\t$0.0000\t2026-05-04T06:30Z\t2\tShort, please."] * 150
    )


def test_a_list_as_json_has_a_snapshot_in_every_line(server: ScriptedApi, hone: Run) -> None:
    server.answers[f"{LIST}limit=20"] = [page(2, None)]
    lines = hone("list", "--json").stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [ID, ID]


PAIRS = '{"prompt":"Say it.","chosen":"So.","rejected":"It."}\n'


def test_pairs_are_written_as_they_come_and_a_refusal_leaves_no_file(
    server: ScriptedApi, hone: Run, tmp_path: Path
) -> None:
    asked = "GET /v1/pairs?preset=mail&form=conversational&source=rating&source=review"
    server.answers[asked] = [CannedResponse(PAIRS, 200, "application/jsonl")]
    options = "--preset=mail --form=conversational --source=rating --source=review"
    assert (done := hone("pairs", *options.split())).stdout == PAIRS, done.stderr
    refused = hone("pairs", "--preset", "other", "--output", str(tmp_path / "pairs.jsonl"))
    assert (refused.exit_code, [*tmp_path.iterdir()]) == (1, [])


def test_the_filters_of_a_list_are_those_of_the_api(server: ScriptedApi, hone: Run) -> None:
    filters = "--status failed --status paused --metadata a=b=c --min-score 0.5 --since 2026-01-31"
    hone("list", *filters.split())
    assert server.asked[0].route == (
        f"{LIST}status=failed&status=paused&min_score=0.5"
        "&submitted_from=2026-01-31T00%3A00%3A00Z&metadata.a=b%3Dc&result=false&limit=20"
    )


REPLACED = DiffOperation(
    op="replace",
    from_start=0,
    from_end=1,
    to_start=0,
    to_end=1,
    from_text="In order to be short.\n",
    to_text="Short.\n",
)


@pytest.mark.parametrize(
    ("options", "printed"),
    [((), "[-In order to be short.-]{+Short.+}\n"), (("--unified",), DIFF.unified)],
)
def test_a_diff_is_between_the_first_draft_and_the_best(
    server: ScriptedApi, hone: Run, options: tuple[str, ...], printed: str
) -> None:
    found = DIFF.model_copy(update={"operations": (REPLACED,)}).model_dump_json()
    server.answers |= {
        f"GET {AT}": [CannedResponse(snapshot().model_dump_json())],
        f"GET {AT}/diff?from=0&to=1": [CannedResponse(found)],
    }
    assert hone("diff", ID, *options).stdout == printed


def test_the_result_of_a_review_is_what_a_difference_ends_with(
    server: ScriptedApi, hone: Run
) -> None:
    final = snapshot()
    assert final.result is not None
    place = {"path": "reviews/1/iterations/1"}
    reviewed = final.model_copy(
        update={
            "result": final.result.model_copy(update=place),
            "scores": (*final.scores, final.scores[-1].model_copy(update=place)),
        }
    )
    found = f"GET {AT}/diff?from=0&to=1&from_path=&path=reviews%2F1"
    server.answers |= {
        f"GET {AT}": [CannedResponse(reviewed.model_dump_json())],
        found: [CannedResponse(DIFF.model_dump_json())],
        f"GET {AT}/diff?from=0&to=1": [CannedResponse(DIFF.model_dump_json())],
    }
    for options, asked in ((), found), (("0", "1"), f"GET {AT}/diff?from=0&to=1"):
        assert hone("diff", ID, *options).exit_code == 0
        assert server.asked[-1].route == asked


def test_a_diff_of_what_has_no_draft_is_an_error(server: ScriptedApi, hone: Run) -> None:
    queued = snapshot(Status.QUEUED, None, None).model_copy(update={"scores": ()})
    server.answers[f"GET {AT}"] = [CannedResponse(queued.model_dump_json())]
    done = hone("diff", ID)
    assert (done.exit_code, "has no judged draft; it is queued" in done.stderr) == (1, True)


def test_open_prints_the_address_where_no_browser_is(server: ScriptedApi, hone: Run) -> None:
    server.answers |= {
        f"GET /console/refinements/{ID}": [CannedResponse("", media_type="text/html")],
        f"GET {AT}": [CannedResponse(snapshot().model_dump_json()), CannedResponse("{}", 401)],
    }
    done = hone("open", ID, "--url")
    assert hone("open", ID, "--url").stdout == done.stdout  # the console may have a key
    assert (done.exit_code, done.stdout) == (0, f"{server.url}/console/refinements/{ID}\n")


def test_open_starts_the_browser_that_the_environment_names(
    server: ScriptedApi, tmp_path: Path
) -> None:
    server.answers["GET /console"] = [CannedResponse("", media_type="text/html")]
    opened, browser = tmp_path / "opened", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {opened}\n')
    browser.chmod(0o700)
    command = [sys.executable, "-m", "app.cli", "open", "--server", server.url]
    done = subprocess.run(
        command,
        env=os.environ | {"BROWSER": f"{browser} %s"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, opened.read_text()) == ("", f"{server.url}/console")


def test_open_opens_no_page_of_a_refinement_that_does_not_exist(
    server: ScriptedApi, hone: Run
) -> None:
    server.answers[f"GET /console/refinements/{ID}"] = [CannedResponse("", media_type="text/html")]
    done = hone("open", ID, "--url")
    assert (done.exit_code, done.stdout) == (1, "")


def test_a_diff_that_is_refused_says_what_is_missing(server: ScriptedApi, hone: Run) -> None:
    why = {"title": "Not found", "status": 404, "detail": "iteration 9 does not exist"}
    told = json.dumps({"type": "", "instance": "", "code": "not_found", **why})
    server.answers |= {
        f"GET {AT}": [CannedResponse(snapshot().model_dump_json())],
        f"GET {AT}/diff?from=0&to=9": [CannedResponse(told, 404)],
    }
    assert hone("diff", ID, "0", "9").stderr == "Error: Not found: iteration 9 does not exist\n"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("list --since yesterday", "yesterday is not a time such as 2026-01-31"),
        ("list --until 2026-99-99", "2026-99-99 is not a time"),
        ("list --until 9999-12-31T23:59:59-14:00", "is not a time"),
        ("keys create --expires-in-days 3000000", "the year 9999 is the last one"),
        ("insights --since yesterday", "yesterday is not a date such as 2026-01-31"),
        ("list --status done", "'done' is not one of 'queued'"),
        ("list --limit x", "must be a whole number"),
        ("list --limit 0", "must be at least 1"),
        ("list --min-score high", "must be a number"),
        ("get nope", "nope is not the id of a refinement"),
        ("delete --yes nope", "nope is not the id of a refinement"),
        ("open a/b", "a/b is not the id of a refinement"),
        ("get ref_1 --server foo://bar", "foo://bar is not the URL of a server"),
        ("get ref_1 --server http://[", "http://[ is not the URL of a server"),
        ("get ref_1 --server localhost:99999", "localhost:99999 is not the URL of a server"),
    ],
)
def test_an_option_or_argument_that_cannot_be_meant_is_wrong_usage(
    server: ScriptedApi, hone: Run, command: str, words: str
) -> None:
    done = hone(*command.split())
    assert (done.exit_code, words in done.stderr, server.asked) == (2, True, [])
    assert "Input should" not in done.stderr
    assert "Value error" not in done.stderr


def test_open_says_that_a_server_has_no_console(hone: Run) -> None:
    done = hone("open", ID)
    assert (done.exit_code, "has this server a console?" in done.stderr) == (1, True)


def test_delete_erases_what_is_named_and_asks_where_somebody_can_answer(
    server: ScriptedApi, hone: Run
) -> None:
    server.answers |= {f"DELETE {AT}": [CannedResponse("", 204)]}
    assert hone("delete", ID).exit_code == 2
    assert server.asked == []
    assert hone("delete", ID, ID, "--yes").exit_code == 0
    assert [request.route for request in server.asked] == [f"DELETE {AT}"] * 2


BASH = """
eval "$(_HONE_COMPLETE=source_bash hone)"
COMP_WORDS=(hone list --status fa) COMP_CWORD=3
_hone_completion hone; echo "$COMPREPLY"
"""
ZSH = """
compdef() { :; }; _arguments() { print -r -- "$@"; }
words=(hone list --status fa) CURRENT=4
eval "$(_HONE_COMPLETE=source_zsh hone)"; _hone_completion
"""
FISH = "_HONE_COMPLETE=source_fish hone | source; complete -C 'hone list --status fa'"


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("submit --strategy ite", ["iterative"]),
        ("list --strategy be", ["best_of_n"]),
        ("continue ref_1 --review be", ["before_completion"]),
        ("review ref_1 app", ["approve"]),
    ],
)
def test_names_that_the_server_checks_are_completed_too(words: str, completed: list[str]) -> None:
    line = f"hone {words}"
    environment = {"_HONE_COMPLETE": "complete_bash", "COMP_WORDS": line}
    environment["COMP_CWORD"] = str(len(line.split()) - 1)
    done = subprocess.run(
        [Path(sys.executable).parent / "hone"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == completed


@pytest.mark.parametrize(
    ("command", "completed"),
    [
        (("bash", "-c", BASH), "failed\n"),
        (("zsh", "-fc", ZSH), '*: :(("failed"))\n'),
        (("fish", "-Nc", FISH), "failed\n"),
    ],
)
def test_shells_complete_options_and_their_values(
    command: tuple[str, ...], completed: str, tmp_path: Path
) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]}")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "HOME": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (completed, "")
