"""Validators that steer, over HTTP: scores, and an endpoint that is away."""

import json

from aiohttp import web

from tests.e2e.running_service import RunningService
from tests.local_endpoint import endpoint


async def test_the_score_of_an_endpoint_that_was_away_decides(service: RunningService) -> None:
    statuses = iter([503] * 3)

    async def answer(request: web.Request) -> web.StreamResponse:
        draft = json.loads(await request.text())["draft"]
        said = {"score": 0.9 if "Draft number 2" in draft else 0.3, "reason": "measured"}
        return web.json_response(said, status=next(statuses, 200))

    async with endpoint(answer) as (url, asked, _):
        decides = {"kind": "http", "url": url, "timeout_s": 60, "score": {"as": "decides"}}
        ended = await service.ended(await service.submit(validators=[decides], threshold=0.8))
        events = await service.events(ended["id"])
    assert (ended["stop_reason"], ended["outcome"]) == ("threshold_met", "passed")
    result = ended["result"]
    assert (result["score"], result["score_from"], result["path"]) == (
        0.9,
        "validators",
        "iterations/2",
    )
    assert len(asked) == 3 + 2
    (wait,) = [it["data"] for it in events if it["type"] == "step.waiting"]
    assert (wait["key"], wait["reason"]) == ("iterations/1/check", "overloaded")
    assert wait["model"].startswith("endpoint:127.0.0.1:")
