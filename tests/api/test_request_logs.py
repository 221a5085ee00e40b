"""One line per request, and the id by which its lines are found."""

import logging

import httpx
import pytest

from app.settings import Settings
from tests.api.api_client import REQUEST, submitted
from tests.api.conftest import running
from tests.waiting import TIMEOUT_S

LOGGER = "hone.requests"


async def test_every_request_is_logged_once_with_what_it_was_about(
    api: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        refinement_id = await submitted(api)
        await api.get(f"/v1/refinements/{refinement_id}")
        await api.get("/v1/nowhere", headers={"X-Request-Id": "mine-1"})
        await api.post("/v1/refinements", json={"draft": 5})
        await api.get("/healthz")
    found = [vars(it) for it in caplog.records if it.name == LOGGER]
    told = [(it["method"], it["route"], it["status"], it["refinement"]) for it in found]
    assert told == [
        ("POST", "/v1/refinements", 202, refinement_id),
        ("GET", "/v1/refinements/{refinement_id}", 200, refinement_id),
        ("GET", "(none)", 404, None),
        ("POST", "/v1/refinements", 422, None),
    ]
    assert all(it["seconds"] >= 0 and it["tenant"] == "default" for it in found[:2])


async def test_a_submission_below_a_root_path_is_logged_with_its_refinement(
    settings: Settings, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    below = settings.model_copy(update={"root_path": "/hone"})
    with caplog.at_level(logging.INFO, LOGGER), running(below) as url:
        async with httpx.AsyncClient(base_url=f"{url}/hone", timeout=TIMEOUT_S) as api:
            refinement_id = await submitted(api)
    (told,) = [vars(it) for it in caplog.records if it.name == LOGGER]
    assert told["refinement"] == refinement_id


async def test_a_request_id_is_returned_the_clients_own_if_it_is_usable(
    api: httpx.AsyncClient,
) -> None:
    mine = await api.get("/healthz", headers={"X-Request-Id": "mine-1"})
    assert mine.headers["X-Request-Id"] == "mine-1"
    unusable = await api.get("/healthz", headers={"X-Request-Id": "a b"})
    assert unusable.headers["X-Request-Id"].startswith("req_")
    refused = await api.post("/v1/refinements", json=REQUEST, headers={"Host": "evil.example"})
    assert (refused.status_code, "X-Request-Id" in refused.headers) == (421, True)
