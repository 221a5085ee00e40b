"""What is said while the server does not answer."""

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.cli.contract_client import ContractClient, PerhapsSubmitted
from app.cli.silence import Silence
from app.contract.status import Status
from tests.cli.conftest import Run
from tests.cli.frozen_api import FrozenApi, frozen_api
from tests.cli.running_command import running
from tests.cli.scripted_refinement import EVENTS, ID, ending, snapshot, stream
from tests.cli.scripted_server import CannedResponse, ScriptedApi
from tests.waiting import eventually

SUBMIT = "POST /v1/refinements"
WATCH = f"GET /v1/refinements/{ID}/events"
GET = f"GET /v1/refinements/{ID}"
WHOLE = CannedResponse(stream(*EVENTS, ending()), media_type="text/event-stream")
BEGUN = CannedResponse(stream(*EVENTS[:3]), media_type="text/event-stream", hangs=True)
BROKEN = CannedResponse(breaks=True)
ANSWERS = {
    SUBMIT: [CannedResponse(snapshot(Status.QUEUED, None, None).model_dump_json(), 202)],
    GET: [CannedResponse(snapshot().model_dump_json())],
    WATCH: [BEGUN, WHOLE],
}


def quick(api: FrozenApi, told: list[str]) -> ContractClient:
    """A client that soon takes the server for silent."""
    return ContractClient(
        api.url, silence=Silence("hone", told.append, answer_s=0.05, stream_s=0.05)
    )


def test_a_request_that_is_not_answered_is_told_once_and_its_end_too() -> None:
    told = list[str]()
    with frozen_api(ANSWERS) as api, quick(api, told) as client, ThreadPoolExecutor() as pool:
        api.freeze()
        asked = pool.submit(client.snapshot, ID)
        eventually(lambda: told != [])
        api.thaw()
        assert asked.result().id == ID
    assert told[0].startswith("hone has not answered for ")
    assert told[0].endswith(" s. Nothing is lost: this command goes on when it answers.")
    assert told[1].startswith("hone answers again, after ")
    assert len(told) == 2


def test_a_stream_without_signs_of_life_is_told_once_and_its_end_too() -> None:
    told, seen = list[str](), list[int]()

    def follow(client: ContractClient) -> None:
        seen.extend(event.event for event in client.follow(ID))

    rest = CannedResponse(stream(*EVENTS[3:], ending()), media_type="text/event-stream")
    answers = ANSWERS | {WATCH: [BEGUN, rest]}
    with frozen_api(answers) as api, quick(api, told) as client, ThreadPoolExecutor() as pool:
        followed = pool.submit(follow, client)
        api.freeze()
        eventually(lambda: told != [])
        api.release()
        api.thaw()
        followed.result()
    assert seen == [*range(1, len(EVENTS) + 2)]
    assert [line.split()[1] for line in told] == ["has", "answers"] * (len(told) // 2)


def test_a_killed_server_is_told_at_once_and_its_return_too(server: ScriptedApi) -> None:
    told = list[str]()
    server.answers[WATCH] = [CannedResponse("", 503), CannedResponse("", 503), WHOLE]
    silence = Silence("hone", told.append)
    with ContractClient(server.url, silence=silence) as client:
        assert [*client.follow(ID)]
    assert told[0].startswith("hone does not answer: status 503. Nothing is lost")
    assert [line.split()[1] for line in told] == ["does", "answers"]


def test_submit_says_that_nothing_answers_and_goes_on_when_something_does(tmp_path: Path) -> None:
    draft = tmp_path / "draft.txt"
    draft.write_text("In order to be short.\n")
    with frozen_api(ANSWERS | {WATCH: [WHOLE]}) as api:
        api.freeze()
        with running("submit", str(draft), "--server", api.url) as command:
            assert command.says("nothing is submitted twice")
            api.thaw()
            assert command.end() == 0
    assert [line for line in command.lines if line.startswith(f"{api.url} answers again")]
    assert command.lines[-1] == "Short."


def test_ctrl_c_before_an_answer_says_how_to_repeat_the_submission() -> None:
    with frozen_api(ANSWERS) as api:
        api.freeze()
        with running("submit", "--task", "Write.", "--server", api.url) as command:
            assert command.says("has not answered")
            assert command.interrupt(signal.SIGINT) == 130
    assert any("--idempotency-key hone-" in line for line in command.lines)


@pytest.mark.parametrize("options", [(), ("--quiet",)])
def test_a_server_that_is_away_is_told_unless_the_command_is_quiet(
    server: ScriptedApi, hone: Run, options: tuple[str, ...]
) -> None:
    server.answers = {**ANSWERS, WATCH: [WHOLE], SUBMIT: [BROKEN, BROKEN, *ANSWERS[SUBMIT]]}
    done = hone("submit", "-", *options, stdin="x")
    assert (done.exit_code, done.stdout) == (0, "Short.\n")
    assert ("does not answer" in done.stderr) == (options == ())


def test_a_submission_whose_answer_is_lost_is_sent_again_with_its_key(
    server: ScriptedApi, hone: Run
) -> None:
    server.answers = {**ANSWERS, WATCH: [WHOLE], SUBMIT: [BROKEN, *ANSWERS[SUBMIT]]}
    done = hone("submit", "-", "--idempotency-key", "k", stdin="x")
    assert (done.exit_code, done.stdout) == (0, "Short.\n")
    assert [request.key for request in server.asked if request.route == SUBMIT] == ["k", "k"]


def test_a_submission_whose_answer_stays_away_may_have_been_received(server: ScriptedApi) -> None:
    server.answers[SUBMIT] = [BROKEN]
    again = "--idempotency-key k submits it, or goes on"
    with (
        ContractClient(server.url, resubmissions=2) as client,
        pytest.raises(PerhapsSubmitted, match=again),
    ):
        client.send_surely("/v1/refinements", {"task": "Write."}, "k")
    assert [request.key for request in server.asked] == ["k"] * 3
