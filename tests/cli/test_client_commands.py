"""`hone submit | watch | get | cancel`, over HTTP."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from errno import ENOSPC
from pathlib import Path

import pytest
from rich.text import Text

from app.cli.contract_client import CliError, ContractClient
from app.cli.display import Progress, table_of
from app.cli.root import write_file
from app.contract.errors import FieldError, InvalidRequest
from app.contract.events import EventType
from app.contract.models import ROLES
from app.contract.snapshot import Failure
from app.contract.status import RefinementOutcome, Status, StopReason
from tests.cli.conftest import Run
from tests.cli.scripted_refinement import DIFF, EVENTS, ID, ending, snapshot, stream
from tests.cli.scripted_server import CannedResponse, ScriptedApi

SUBMIT = "POST /v1/refinements"
STREAM = "text/event-stream"
WATCH = f"GET /v1/refinements/{ID}/events"
PROBLEM = {
    "type": "/docs/errors#invalid_request",
    "title": "The request is invalid",
    "status": 422,
    "detail": "1 error",
    "instance": "/v1/refinements",
    "code": "invalid_request",
    "errors": [{"pointer": "/threshold", "detail": "at most 1"}],
}


def script(server: ScriptedApi, final: CannedResponse | None = None) -> None:
    """Accept a submission, and stream its events."""
    server.answers[SUBMIT] = [
        CannedResponse(snapshot(Status.QUEUED, None, None).model_dump_json(), 202)
    ]
    whole = CannedResponse(stream(*EVENTS, ending()), media_type="text/event-stream")
    server.answers[WATCH] = [final or whole]
    server.answers[f"GET /v1/refinements/{ID}/diff?from=0&to=1"] = [
        CannedResponse(DIFF.model_dump_json())
    ]


def test_submit_prints_the_result_alone_and_passes(server: ScriptedApi, hone: Run) -> None:
    script(server)
    done = hone("submit", "-", "--task", "Shorter.", stdin="In order to be short.")
    assert (done.exit_code, done.stdout) == (0, "Short.\n")


def with_object() -> CannedResponse:
    """Return the stream of a refinement whose result is an object."""
    final = snapshot()
    assert final.result is not None
    result = final.result.model_copy(update={"draft": OBJECT, "object": json.loads(OBJECT)})
    ended = ending(final=final.model_copy(update={"result": result}))
    return CannedResponse(stream(*EVENTS, ended), media_type="text/event-stream")


OBJECT = '{\n  "text": "Short."\n}'


def test_submit_prints_an_object_and_writes_it_to_a_file(
    server: ScriptedApi, hone: Run, tmp_path: Path
) -> None:
    request, output = tmp_path / "request.json", tmp_path / "better.json"
    request.write_text('{"draft": {"text": "In order to be short."}}')
    for option in ((), ("--output", str(output))):
        script(server, with_object())
        done = hone("submit", "--request", str(request), *option)
        assert (done.exit_code, done.stdout) == (0, "" if option else f"{OBJECT}\n")
    assert output.read_text() == f"{OBJECT}\n"


def test_an_object_that_would_be_sent_changed_is_not_sent(server: ScriptedApi, hone: Run) -> None:
    done = hone("submit", "--request", "-", stdin='{"draft": {"n": 12345678901234567890.5}}')
    assert done.exit_code == 2
    assert "/draft/n" in done.stderr
    assert server.asked == []


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELED])
def test_what_ended_without_passing_is_exit_code_3_and_its_best_draft_is_printed(
    server: ScriptedApi, hone: Run, status: Status
) -> None:
    reason = {Status.SUCCEEDED: "plateau", Status.FAILED: "error", Status.CANCELED: "canceled"}
    ends_as = "best_effort" if status is Status.SUCCEEDED else status
    final = snapshot(status, StopReason(reason[status]), outcome=RefinementOutcome(ends_as))
    kind = EventType(f"refinement.{status}".replace("succeeded", "completed"))
    ended = CannedResponse(stream(*EVENTS, ending(kind, final)), media_type="text/event-stream")
    script(server, ended)
    done = hone("submit", "-", stdin="In order to be short.")
    assert (done.exit_code, done.stdout) == (3, "Short.\n")
    assert f"Result: {ends_as}: iteration 1" in done.stderr


def test_what_ended_without_a_draft_prints_none_and_writes_no_file(
    server: ScriptedApi, hone: Run, tmp_path: Path
) -> None:
    failed = ending(EventType.FAILED, snapshot(Status.FAILED, StopReason.ERROR, None))
    ended = CannedResponse(stream(*EVENTS, failed), media_type="text/event-stream")
    script(server, ended)
    done = hone("submit", "-", "--output", str(tmp_path / "better.txt"), stdin="x")
    assert (done.exit_code, done.stdout, [*tmp_path.iterdir()]) == (3, "", [])
    assert "there is no result" in done.stderr


def test_quiet_shows_no_progress_and_json_is_the_last_snapshot(
    server: ScriptedApi, hone: Run
) -> None:
    script(server)
    done = hone("submit", "-", "--quiet", "--json", stdin="x")
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout) == snapshot().model_dump(mode="json")


def test_quiet_still_says_why_a_refinement_failed(server: ScriptedApi, hone: Run) -> None:
    reason = Failure(code="model_refused", detail="the provider says no")
    failed = snapshot(Status.FAILED, StopReason.ERROR, None).model_copy(update={"error": reason})
    end = ending(EventType.FAILED, failed)
    script(server, CannedResponse(stream(*EVENTS, end), media_type="text/event-stream"))
    done = hone("submit", "-", "--quiet", stdin="x")
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr == "Error: model_refused: the provider says no\n"


def test_output_is_a_file_with_the_result_and_the_mode_it_had(
    server: ScriptedApi, hone: Run, tmp_path: Path
) -> None:
    script(server)
    better = tmp_path / "better.txt"
    better.write_text("as it was")
    better.chmod(0o640)
    done = hone("submit", "-", "-o", str(better), stdin="x")
    assert (done.exit_code, done.stdout, better.read_text()) == (0, "", "Short.\n")
    assert better.stat().st_mode & 0o777 == 0o640
    assert [*tmp_path.iterdir()] == [better]


def test_a_file_that_cannot_be_written_is_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "better.txt"
    file.write_text("as it was")

    def breaks() -> Iterator[bytes]:
        yield b"half"
        raise OSError(ENOSPC, "No space left on device")

    with pytest.raises(CliError, match="No space left"):
        write_file(file, breaks())
    assert ([*tmp_path.iterdir()], file.read_text()) == ([file], "as it was")


def test_where_no_file_can_be_written_nothing_is_submitted(
    server: ScriptedApi, hone: Run, tmp_path: Path
) -> None:
    done = hone("submit", "-", "-o", str(tmp_path / "none" / "better.txt"), stdin="x")
    assert (done.exit_code, server.asked) == (2, [])


@pytest.mark.parametrize(
    "command", [("submit", "--task", "Write."), ("retry", ID), ("continue", ID)]
)
def test_no_wait_prints_the_id(server: ScriptedApi, hone: Run, command: tuple[str, ...]) -> None:
    script(server)
    begun = server.answers[SUBMIT]
    server.answers |= {f"{SUBMIT}/{ID}/retry": begun, f"{SUBMIT}/{ID}/continue": begun}
    done = hone(*command, "--no-wait")
    assert (done.exit_code, done.stdout, len(server.asked)) == (0, f"{ID}\n", 1)


def test_submit_sends_what_was_asked_for_and_nothing_else(
    server: ScriptedApi, hone: Run, tmp_path: Path
) -> None:
    script(server)
    draft = tmp_path / "draft.txt"
    draft.write_text("Größer.", encoding="utf-8")
    options = "--criterion clarity=Plain=simple --criterion tone --threshold 0.9 --max-iterations 2"
    hone(
        "submit",
        str(draft),
        *options.split(),
        "--model",
        "openai:x",
        "--strategy",
        "critique",
        "--review",
        "before_completion",
    )
    assert json.loads(server.asked[0].body) == {
        "draft": "Größer.",
        "criteria": [{"name": "clarity", "description": "Plain=simple"}, {"name": "tone"}],
        "threshold": 0.9,
        "max_iterations": 2,
        "models": {"generator": "openai:x", "critic": "openai:x"},
        "strategy": {"kind": "critique"},
        "review": {"when": "before_completion"},
    }


def test_criteria_may_be_left_to_a_critic(server: ScriptedApi, hone: Run) -> None:
    script(server)
    hone("submit", "--task", "Write.", "--criterion", "auto")
    assert json.loads(server.asked[0].body) == {"task": "Write.", "criteria": "auto"}


def test_options_replace_what_the_request_file_says(
    server: ScriptedApi, hone: Run, tmp_path: Path
) -> None:
    script(server)
    request = tmp_path / "request.json"
    request.write_text('{"task": "Shorter.", "threshold": 0.5, "metadata": {"ticket": "4711"}}')
    hone("submit", "--request", str(request), "--threshold", "0.9")
    assert json.loads(server.asked[0].body) == {
        "task": "Shorter.",
        "threshold": 0.9,
        "metadata": {"ticket": "4711"},
    }


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "FILE, --task, or --request"),
        (("no-such-file.txt",), "No such file"),
        (("-", "--request", "no-such-file.json"), "No such file"),
        (("-", "--request", "-"), "both read standard input"),
        (("-", "--no-wait", "--output", "x"), "--no-wait"),
        (("--threshold", "high"), "--threshold"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_asks_no_server(
    server: ScriptedApi, hone: Run, arguments: tuple[str, ...], complaint: str
) -> None:
    done = hone("submit", *arguments, stdin="x")
    assert done.exit_code == 2
    assert complaint in done.stderr
    assert server.asked == []


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "draft.txt is empty"),
        (b" \n\n", "draft.txt has only white space"),
        (b"\xff\xfe\x00", "draft.txt is not UTF-8 text"),
        (
            "\u00e9".encode() * 5_000_001,
            "draft.txt is too long for a draft, which has at most 5,000,000",
        ),
        ("\U0001f600".encode() * 6_000_000, "draft.txt is too long"),
    ],
)
def test_a_file_that_cannot_be_a_draft_is_named(
    server: ScriptedApi, hone: Run, tmp_path: Path, content: bytes, complaint: str
) -> None:
    file = tmp_path / "draft.txt"
    file.write_bytes(content)
    done = hone("submit", str(file))
    assert (done.exit_code, server.asked) == (2, [])
    assert complaint in done.stderr


@pytest.mark.parametrize(
    ("draft", "printed"),
    [
        (b"In order to be short.", b"Short."),
        (b"In order to be short.\n", b"Short.\n"),
        (b"\xef\xbb\xbfIn order to be short.\r\n", b"Short.\r\n"),
    ],
)
def test_the_result_ends_with_a_line_end_if_the_draft_does(
    server: ScriptedApi, hone: Run, tmp_path: Path, draft: bytes, printed: bytes
) -> None:
    bare = snapshot(draft="Short.")
    script(server, CannedResponse(stream(*EVENTS, ending(final=bare)), media_type=STREAM))
    file = tmp_path / "draft.txt"
    file.write_bytes(draft)
    assert hone("submit", str(file)).stdout_bytes == printed
    sent = json.loads(server.asked[0].body)
    assert sent["draft"][0] == "I"
    server.answers |= {
        f"GET /v1/refinements/{ID}": [CannedResponse(bare.model_dump_json())],
        f"GET /v1/refinements/{ID}/request": [CannedResponse(json.dumps(sent))],
    }
    assert hone("get", ID, "--draft").stdout_bytes == printed
    assert hone("watch", ID).stdout_bytes == printed


def test_a_refusal_is_shown_with_its_pointers(server: ScriptedApi, hone: Run) -> None:
    server.answers[SUBMIT] = [CannedResponse(json.dumps(PROBLEM), 422, "application/problem+json")]
    done = hone("submit", "-", "--threshold", "7", stdin="x")
    assert done.exit_code == 1
    assert "The request is invalid: 1 error\n  /threshold: at most 1\n" in done.stderr


def test_a_sentence_of_a_refusal_is_shown_once(server: ScriptedApi, hone: Run) -> None:
    why = InvalidRequest.at(
        *(FieldError(pointer=f"/models/{role}", detail="no such model") for role in ROLES),
        *(FieldError(pointer=f"/{number}", detail=f"wrong {number}") for number in range(4)),
    )
    errors = [error.model_dump() for error in why.errors]
    refused = json.dumps(PROBLEM | {"detail": why.detail, "errors": errors})
    server.answers[SUBMIT] = [CannedResponse(refused, 422, "application/problem+json")]
    assert hone("submit", "-", stdin="x").stderr == (
        "Error: The request is invalid: /models/generator, /models/critic: no such model;"
        " /0: wrong 0; /1: wrong 1; 2 more errors\n  /2: wrong 2\n  /3: wrong 3\n"
    )


def test_without_a_server_it_says_how_to_start_one(hone: Run) -> None:
    done = hone("get", ID, "--server", "http://127.0.0.1:9")
    assert done.exit_code == 1
    assert "http://127.0.0.1:9 is unreachable" in done.stderr
    assert "hone serve" in done.stderr


def test_the_progress_is_told_in_plain_lines_on_standard_error(
    server: ScriptedApi, hone: Run
) -> None:
    script(server)
    done = hone("submit", "-", stdin="In order to be short.", FORCE_COLOR="1", TERM="xterm")
    assert done.exit_code == 0
    told = Text.from_ansi(done.stderr).plain
    for line in (
        f"{ID}: iterative, generator offline:editor, critic offline:editor",
        "iteration 0: score 0.41 (clarity 0.41), not good enough yet",
        "iteration 1: score 0.91 (clarity 0.91), passed",
        "passed: threshold_met; 2 calls, 240 tokens, $0.0000, 1.0 s",
        "Result: passed: iteration 1 with score 0.91. The score is 0.91; the threshold is 0.85.",
    ):
        assert told.count(f"{line}\n") == 1, line


def test_watching_what_fails_is_exit_code_3(server: ScriptedApi, hone: Run) -> None:
    end = ending(EventType.FAILED, snapshot(Status.FAILED, StopReason.ERROR, None))
    script(server, CannedResponse(stream(*EVENTS, end), media_type="text/event-stream"))
    assert hone("watch", ID).exit_code == 3


def test_what_is_erased_while_it_is_watched_is_said_to_be(server: ScriptedApi, hone: Run) -> None:
    begun = CannedResponse(stream(*EVENTS), media_type=STREAM)
    server.answers[WATCH] = [begun, CannedResponse("{}", 404)]
    done = hone("watch", ID)
    assert done.exit_code == 1
    assert done.stderr.endswith(f"Error: {ID} was erased, or is no longer kept\n")


def test_a_result_of_an_inner_search_is_called_by_its_path(server: ScriptedApi, hone: Run) -> None:
    ended = snapshot()
    assert ended.result
    inner = ended.result.model_copy(update={"path": "reviews/1/iterations/1"})
    final = ending(final=ended.model_copy(update={"result": inner}))
    script(server, CannedResponse(stream(*EVENTS, final), media_type=STREAM))
    told = hone("submit", "-", stdin="x").stderr
    assert "passed: reviews/1/iterations/1 with score 0.91" in told


def test_get_prints_the_snapshot_as_json(server: ScriptedApi, hone: Run) -> None:
    server.answers[f"GET /v1/refinements/{ID}"] = [CannedResponse(snapshot().model_dump_json())]
    assert json.loads(hone("get", ID).stdout) == snapshot().model_dump(mode="json")


def test_get_draft_prints_the_text_to_the_letter(server: ScriptedApi, hone: Run) -> None:
    kept = snapshot(draft="Tab\there,\x0c no end")
    server.answers[f"GET /v1/refinements/{ID}"] = [CannedResponse(kept.model_dump_json())]
    assert hone("get", ID, "--draft").stdout_bytes == b"Tab\there,\x0c no end"


def test_cancel_prints_the_status_after_it(server: ScriptedApi, hone: Run) -> None:
    canceling = snapshot(Status.CANCELING, None, None).model_dump_json()
    server.answers[f"POST /v1/refinements/{ID}/cancel"] = [CannedResponse(canceling, 202)]
    assert hone("cancel", ID).stdout == "canceling\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_the_refinement_alone_and_it_is_said_how_to_go_on(
    server: ScriptedApi, number: signal.Signals
) -> None:
    script(server, CannedResponse(stream(*EVENTS), media_type="text/event-stream", hangs=True))
    command = [sys.executable, "-m", "app.cli", "watch", ID, "--server", server.url]
    watching = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    with watching:
        output = watching.stderr
        assert output is not None
        assert any(line.startswith("iteration 1:") for line in output)
        watching.send_signal(number)
        last_words = output.read()
    assert watching.returncode == 128 + number
    assert f"hone watch {ID}" in last_words
    assert f"hone cancel {ID}" in last_words
    assert [asked.route for asked in server.asked] == [WATCH]


STEP = {
    "event": 4,
    "key": "iterations/1/critique",
    "kind": "ask",
    "at": "2026-11-21T09:30:00.012Z",
    "is_voided": False,
    "prompt": {
        "name": "critique",
        "version": 3,
        "system": "You judge.",
        "user": "A draft.",
    },
    "model": "openai:x",
    "tried": [],
    "reply": {"kind": "text", "text": "Good."},
    "code": None,
    "detail": None,
    "usage": {"calls": 1, "input_tokens": 7, "output_tokens": 3, "cost_usd": 0.0, "seconds": 0.5},
    "seconds": 0.5,
}


def test_steps_are_listed_through_all_pages(server: ScriptedApi, hone: Run) -> None:
    url = f"GET /v1/refinements/{ID}/steps?after="
    failed = STEP | {"event": 5, "reply": None, "code": "model_refused", "is_voided": True}
    pages = {
        "0": {"data": [STEP], "has_more": True, "next_after": 4},
        "4": {"data": [failed], "has_more": False, "next_after": 5},
    }
    for after, page in pages.items():
        server.answers[url + after] = [CannedResponse(json.dumps(page))]
    done = hone("steps", ID)
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "   4  iterations/1/critique  openai:x  (1 call, 10 tokens, $0.0000, 0.5 s)",
        (
            "   5  iterations/1/critique  failed: model_refused, voided by a retry"
            "  (1 call, 10 tokens, $0.0000, 0.5 s)"
        ),
    ]


def test_a_step_is_printed_with_prompt_and_reply(server: ScriptedApi, hone: Run) -> None:
    url = f"GET /v1/refinements/{ID}/steps?path=iterations%2F1%2Fcritique&after=0"
    page = {"data": [STEP], "has_more": False, "next_after": 4}
    server.answers[url] = [CannedResponse(json.dumps(page))]
    done = hone("steps", ID, "iterations/1/critique")
    assert done.exit_code == 0
    lines = [line for line in done.stdout.splitlines() if line]
    assert lines[1:] == [
        "--- prompt critique, version 3",
        "You judge.",
        "A draft.",
        "--- reply",
        "Good.",
    ]


def test_a_path_without_a_step_is_an_error(server: ScriptedApi, hone: Run) -> None:
    page = {"data": [], "has_more": False, "next_after": 0}
    server.answers[f"GET /v1/refinements/{ID}/steps?path=none&after=0"] = [
        CannedResponse(json.dumps(page))
    ]
    done = hone("steps", ID, "none")
    assert done.exit_code != 0
    assert "no step at none has ended" in done.stderr


PIECES = """event: step.delta
data: {"key":"iterations/1/draft","offset":0,"text":"First try."}

event: step.delta
data: {"key":"iterations/1/draft","offset":0,"text":"Dear"}

event: step.delta
data: {"key":"iterations/1/draft","offset":4,"text":" customer\\nBye"}

"""


def test_pieces_of_texts_do_not_disturb_the_events(server: ScriptedApi) -> None:
    whole = PIECES + stream(*EVENTS, ending())
    answer = CannedResponse(whole, media_type="text/event-stream")
    server.answers[f"{WATCH}?deltas=true"] = [answer]
    progress = Progress()
    with ContractClient(server.url) as client:
        seen = list(client.follow(ID, progress.add_piece))
    assert progress.texts == {"iterations/1/draft": "Dear customer\nBye"}
    assert [event.event for event in seen] == [event.event for event in (*EVENTS, ending())]
    shown = [part.plain for part in table_of(progress, ID, 80) if isinstance(part, Text)]
    assert shown[-1] == "iterations/1/draft\nDear customer\nBye"


def test_texts_are_not_asked_for_where_there_is_no_terminal(server: ScriptedApi, hone: Run) -> None:
    script(server)
    assert hone("watch", ID).exit_code == 0
    assert next(request.route for request in server.asked) == WATCH


@pytest.mark.parametrize(
    "arguments",
    [
        ("submit", "--task", "x", "--threshold", "nan"),
        ("retry", ID, "--max-seconds", "inf"),
        ("rate", ID, "iterations/1", "--score=-inf"),
        ("keys", "create", "--expires-in-days", "nan"),
    ],
)
def test_an_option_that_is_not_finite_is_wrong_usage(
    server: ScriptedApi, hone: Run, arguments: tuple[str, ...]
) -> None:
    done = hone(*arguments)
    assert (done.exit_code, server.asked) == (2, [])
    assert "is not a number with a value" in done.stderr


@pytest.mark.parametrize("body", ['{"threshold": NaN}', '{"threshold": 1e999}', "[" * 100_000])
def test_a_request_that_json_does_not_allow_is_wrong_usage(
    server: ScriptedApi, hone: Run, body: str
) -> None:
    done = hone("submit", "--task", "x", "--request", "-", stdin=body)
    assert (done.exit_code, server.asked) == (2, [])
    assert "is not JSON" in done.stderr


def test_an_option_that_is_not_utf_8_is_wrong_usage(server: ScriptedApi, hone: Run) -> None:
    done = hone("submit", "--task", "bad\udcff")
    assert (done.exit_code, server.asked) == (2, [])
    assert "is not UTF-8 text" in done.stderr


@pytest.mark.parametrize("key", ["schl\u00fcssel", "a\nb", "a b"])
def test_a_key_that_no_header_can_have_is_refused_and_not_shown(
    server: ScriptedApi, hone: Run, key: str
) -> None:
    done = hone("list", HONE_API_KEY=key)
    assert (done.exit_code, server.asked) == (2, [])
    assert "HONE_API_KEY is no key" in done.stderr
    assert key not in done.stderr


def test_an_empty_server_is_wrong_usage(server: ScriptedApi, hone: Run) -> None:
    done = hone("list", "--server", "")
    assert (done.exit_code, server.asked) == (2, [])


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_sent(
    server: ScriptedApi, hone: Run, tmp_path: Path
) -> None:
    script(server)
    for output in (str(tmp_path), "", str(tmp_path / "none" / "x"), str(tmp_path / ("x" * 300))):
        assert hone("submit", "--task", "x", "--output", output).exit_code == 2
    assert server.asked == []


def test_a_result_that_cannot_be_written_is_named_with_the_command_that_prints_it(
    server: ScriptedApi, hone: Run
) -> None:
    script(server)
    done = hone("submit", "--task", "x", "--quiet", "--output", "/dev/full")
    assert done.exit_code == 1
    assert f"hone get {ID} --draft" in done.stderr


def test_an_open_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("one\n")
    with log.open("a") as file:
        (tmp_path / "link").symlink_to(f"/dev/fd/{file.fileno()}")
        for path in (Path(f"/proc/self/fd/{file.fileno()}"), tmp_path / "link"):
            write_file(path, [b"more\n"])
        file.write("last\n")
    assert log.read_text() == "one\nmore\nmore\nlast\n"


def test_an_output_that_is_not_open_for_writing_is_refused_before_anything_is_sent(
    server: ScriptedApi, hone: Run, tmp_path: Path
) -> None:
    (tmp_path / "read").touch()
    with (tmp_path / "read").open() as file:
        for number in (file.fileno(), 999):
            done = hone("submit", "--task", "x", "--output", f"/dev/fd/{number}")
            assert (done.exit_code, server.asked) == (2, [])


@pytest.mark.long
@pytest.mark.parametrize(
    ("ended", "printed"), [("full", "openapi"), ("closed", "openapi"), ("closed", "config")]
)
def test_an_output_that_takes_no_more_is_no_traceback(ended: str, printed: str) -> None:
    command = [sys.executable, "-m", "app.cli", printed]
    if ended == "full":
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
        assert done.returncode == 1
        assert done.stderr.splitlines() == [b"Error: standard output: No space left on device"]
        return
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as cut_off:
        assert cut_off.stdout is not None
        assert cut_off.stderr is not None
        cut_off.stdout.close()
        assert (cut_off.stderr.read(), cut_off.wait()) == (b"", 141)
