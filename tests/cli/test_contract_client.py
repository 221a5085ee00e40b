"""The client: no event is missed, and failures are explained."""

import json

import pytest

from app.cli.contract_client import ContractClient
from app.cli.processes import is_working
from app.contract.offers import Readiness
from hone import ApiError, NotHone, ServerUnreachable
from tests.cli.scripted_refinement import EVENTS, ID, ending, stream
from tests.cli.scripted_server import CannedResponse, ScriptedApi

WHOLE = (*EVENTS, ending())
AT_EVENTS = f"GET /v1/refinements/{ID}/events"


def events(body: str, **how: bool) -> CannedResponse:
    return CannedResponse(body, media_type="text/event-stream", **how)


def test_every_event_comes_once_though_the_stream_breaks(server: ScriptedApi) -> None:
    server.answers[AT_EVENTS] = [
        events(stream(*WHOLE[:3]) + "id: 4\nevent: step.comp"),
        CannedResponse("", 503),
        events(": still here\n\n" + stream(*WHOLE[3:])),
    ]
    with ContractClient(server.url) as client:
        seen = list(client.follow(ID))
    assert seen == list(WHOLE)
    assert [asked.last_event_id for asked in server.asked] == ["0", "3", "3"]


def test_a_stream_without_events_shows_life_too(server: ScriptedApi) -> None:
    server.answers[AT_EVENTS] = [events(": still here\n\n"), events(stream(*WHOLE))]
    signs = list[int]()
    with ContractClient(server.url) as client:
        client.meanwhile = lambda: signs.append(len(signs))
        first = next(client.follow(ID))
    assert (first.event, signs) == (1, [0, 1])


def test_an_event_that_only_a_newer_server_knows_is_passed_over(server: ScriptedApi) -> None:
    unknown = {"event": 3, "type": "refinement.admired", "at": "x", "data": {}}
    novel = f"id: 3\nevent: refinement.admired\ndata: {json.dumps(unknown)}\n\n"
    server.answers[AT_EVENTS] = [events(stream(*WHOLE[:2]) + novel + stream(*WHOLE[3:]))]
    with ContractClient(server.url) as client:
        assert [event.event for event in client.follow(ID)] == [1, 2, 4, 5, 6, 7, 8]


def test_a_field_that_only_a_newer_server_knows_is_ignored(server: ScriptedApi) -> None:
    newer = WHOLE[-1].model_dump(mode="json")
    newer["data"]["mood"] = newer["data"]["result"]["mood"] = "good"
    server.answers[AT_EVENTS] = [events(f"id: 8\ndata: {json.dumps(newer)}\n\n")]
    with ContractClient(server.url) as client:
        assert list(client.follow(ID)) == [WHOLE[-1]]


def test_following_what_does_not_exist_is_refused(server: ScriptedApi) -> None:
    with ContractClient(server.url) as client, pytest.raises(ApiError):
        list(client.follow(ID))


def test_following_gives_up_on_a_server_that_stays_away(server: ScriptedApi) -> None:
    server.answers[AT_EVENTS] = [CannedResponse("", 503)]
    with (
        ContractClient(server.url, patience_s=0.2) as client,
        pytest.raises(ServerUnreachable, match="status 503"),
    ):
        list(client.follow(ID))
    assert len(server.asked) > 1


def test_an_id_cannot_lead_to_another_address(server: ScriptedApi) -> None:
    with ContractClient(server.url) as client, pytest.raises(ApiError):
        client.snapshot("../../readyz?x")
    assert server.asked[0].route == "GET /v1/refinements/..%2F..%2Freadyz%3Fx"


def test_something_else_that_answers_is_not_taken_for_hone(server: ScriptedApi) -> None:
    server.answers[f"GET /v1/refinements/{ID}"] = [CannedResponse("<html>", media_type="text/html")]
    with ContractClient(server.url) as client, pytest.raises(NotHone):
        client.snapshot(ID)


def test_a_server_works_when_it_is_ready_and_has_a_worker(server: ScriptedApi) -> None:
    said = [CannedResponse("{}", 503), *(CannedResponse(ready(workers)) for workers in (0, 1))]
    server.answers["GET /readyz"] = [*said, CannedResponse("{}", 401)]
    with ContractClient(server.url) as client:
        assert [is_working(client.readiness()) for _ in range(4)] == [False, False, True, True]


def ready(workers: int) -> str:
    return Readiness(workers=workers, warnings=()).model_dump_json()
