"""Validators that steer, over HTTP: scores, an endpoint that is away, and SQL that is run."""

import json

from aiohttp import web

from benchmarks.model_replies import AskedPrompt, ModelServerReply, chat
from tests.e2e.running_service import RunningService
from tests.e2e.scripted_models import answering
from tests.local_endpoint import endpoint

SQL = {
    "kind": "sql",
    "dialect": "sqlite",
    "tables": {"orders": ["id", "total"]},
    "rows": {"orders": [[1, 12.5], [2, 3]]},
    "expected_rows": [[15.5]],
}


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
    assert (ended["stop_reason"], ended["passed"]) == ("threshold_met", True)
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


async def test_sql_is_run_and_corrected_from_the_rows_that_are_wrong(
    service: RunningService,
) -> None:
    heard: list[str] = []

    def write(key: str, asked: AskedPrompt) -> ModelServerReply | None:
        heard.append(json.dumps(asked.json))
        return chat("SELECT sum(total) FROM orders")

    service.models.behaviour = answering(write)
    ended = await service.ended(
        await service.submit(
            task="The turnover of all orders.",
            draft="SELECT max(total) FROM orders",
            strategy={"kind": "self_correction"},
            validators=[SQL],
        )
    )
    assert (ended["stop_reason"], ended["passed"]) == ("validators_passed", True)
    assert ended["result"]["draft"] == "SELECT sum(total) FROM orders"
    assert "the result lacks the row (15.5)" in heard[0]
