"""A letter that is published only after two people approved it, with every process real."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr

from benchmarks.model_replies import AskedPrompt, ModelServerReply, chat
from benchmarks.scripted_examples import LETTER, OFFERED
from tests.e2e.running_service import running_service
from tests.e2e.scripted_models import key_of
from tests.e2e.test_reviews import say, until_asked
from tests.local_endpoint import SECRET, THIS_MACHINE, answering_with, endpoint

pytestmark = pytest.mark.long


def answer(asked: AskedPrompt) -> ModelServerReply:
    return chat(LETTER.says[key_of(asked)])


async def message_in(request: web.Request) -> dict[str, object]:
    data: dict[str, object] = json.loads(await request.read())["data"]
    return data


async def test_a_letter_is_published_once_and_only_after_two_people_approved_it(
    tmp_path: Path,
) -> None:
    settings: dict[str, Any] = {"outbound_allow": THIS_MACHINE, "secret_key": SecretStr(SECRET)}
    async with (
        endpoint(answering_with("", 204)) as (url, published, _),
        running_service(tmp_path, answer, **settings) as service,
    ):
        worker = service.processes[-1]
        service.start("app.cli", "webhooks")
        webhook = {**LETTER.request["webhook"], "url": url}
        letter = await service.submit(**{**LETTER.request, "webhook": webhook})
        await until_asked(service, letter, "reviews/1")
        first, change = LETTER.words["reviews/1"]
        assert (await say(service, letter, **first))["status"] == "paused"
        worker.kill()  # an approval is kept while no worker lives
        worker.wait()
        await say(service, letter, **change)
        service.worker()
        asked = await until_asked(service, letter, "reviews/2")
        assert asked["review"]["approvals"] == []  # that one was about the former draft
        first, last = LETTER.words["reviews/2"]
        now = await say(service, letter, **first)
        assert [it["reviewer"] for it in now["review"]["approvals"]] == ["bob"]
        assert (await service.get(letter, "/webhooks"))["data"] == []
        await say(service, letter, **last)
        ended = await service.ended(letter)
        await service.until(lambda: bool(published))
        message = await message_in(published[0])
        assert message["stop_reason"] == ended["stop_reason"] == "approved"
        assert message["reviewed"] == ended["reviewed"]
        assert ended["reviewed"]["approved_by"] == ["bob", "ann"]
        assert ended["result"]["draft"] == OFFERED
        assert (len(published), service.models.counts.calls) == (1, len(LETTER.says))
