"""The client: no event is missed, and failures are explained."""

import json

import pytest

from app.cli.client import RECONNECTS, Client, NotHone, RequestRejected, ServerUnreachable
from app.contract.offers import Readiness
from tests.cli.scripted_refinement import EVENTS, ID, ending, stream
from tests.cli.scripted_server import CannedResponse, ScriptedApi

WHOLE = (*EVENTS, ending())
AT_EVENTS = f"GET /v1/refinements/{ID}/events"


def events(body: str, **how: bool) -> CannedResponse:
    return CannedResponse(body, media_type="text/event-stream", **how)


def patient(server: ScriptedApi) -> Client:
    """A client that does not wait between attempts."""
    return Client(server.url, pause=lambda _s: None)


def test_every_event_comes_once_though_the_stream_breaks(server: ScriptedApi) -> None:
    server.answers[AT_EVENTS] = [
        events(stream(*WHOLE[:3]) + "id: 4\nevent: step.comp"),
        CannedResponse("", 503),
        events(": still here\n\n" + stream(*WHOLE[3:])),
    ]
    with patient(server) as client:
        seen = [event for event in client.follow(ID) if event]
    assert seen == list(WHOLE)
    assert [asked.last_event_id for asked in server.asked] == ["0", "3", "3"]


def test_no_news_is_told_too(server: ScriptedApi) -> None:
    server.answers[AT_EVENTS] = [events(": still here\n\n" + stream(*WHOLE))]
    with patient(server) as client:
        assert next(client.follow(ID)) is None


def test_an_event_that_only_a_newer_server_knows_is_passed_over(server: ScriptedApi) -> None:
    unknown = {"event": 3, "type": "refinement.admired", "at": "x", "data": {}}
    novel = f"id: 3\nevent: refinement.admired\ndata: {json.dumps(unknown)}\n\n"
    server.answers[AT_EVENTS] = [events(stream(*WHOLE[:2]) + novel + stream(*WHOLE[3:]))]
    with patient(server) as client:
        assert [e.event for e in client.follow(ID) if e] == [1, 2, 4, 5, 6, 7, 8]


def test_a_field_that_only_a_newer_server_knows_is_ignored(server: ScriptedApi) -> None:
    newer = WHOLE[-1].model_dump(mode="json")
    newer["data"]["mood"] = newer["data"]["result"]["mood"] = "good"
    server.answers[AT_EVENTS] = [events(f"id: 8\ndata: {json.dumps(newer)}\n\n")]
    with patient(server) as client:
        assert [event for event in client.follow(ID) if event] == [WHOLE[-1]]


def test_following_what_does_not_exist_is_refused(server: ScriptedApi) -> None:
    with patient(server) as client, pytest.raises(RequestRejected):
        list(client.follow(ID))


def test_following_gives_up_on_a_server_that_stays_away(server: ScriptedApi) -> None:
    server.answers[AT_EVENTS] = [CannedResponse("", 503)]
    with patient(server) as client, pytest.raises(ServerUnreachable):
        list(client.follow(ID))
    assert len(server.asked) == RECONNECTS + 1


def test_an_id_cannot_lead_to_another_address(server: ScriptedApi) -> None:
    with patient(server) as client, pytest.raises(RequestRejected):
        client.get("../../readyz?x")
    assert server.asked[0].route == "GET /v1/refinements/..%2F..%2Freadyz%3Fx"


def test_something_else_that_answers_is_not_taken_for_hone(server: ScriptedApi) -> None:
    server.answers[f"GET /v1/refinements/{ID}"] = [CannedResponse("<html>", media_type="text/html")]
    with patient(server) as client, pytest.raises(NotHone):
        client.get(ID)


def test_a_server_works_when_it_is_ready_and_has_a_worker(server: ScriptedApi) -> None:
    said = [CannedResponse("{}", 503), *(CannedResponse(ready(it)) for it in (0, 1))]
    server.answers["GET /readyz"] = [*said, CannedResponse("{}", 401)]
    with patient(server) as client:
        assert [client.is_working() for _ in range(4)] == [False, False, True, True]


def ready(workers: int) -> str:
    return Readiness(workers=workers, warnings=()).model_dump_json()


def test_a_server_is_ready_when_it_says_so(server: ScriptedApi) -> None:
    server.answers["GET /readyz"] = [CannedResponse("{}", 503), CannedResponse("{}")]
    with patient(server) as client:
        assert [client.is_ready(), client.is_ready()] == [False, True]
