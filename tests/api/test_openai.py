"""`/openai/v1` over HTTP: answers, streams, repetitions, errors, and who is let in."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from app.contract.events import StepDelta
from app.openai.answers import GrowingAnswer, TextChanged
from app.settings import Settings
from app.store import WorkerStore
from tests.api.api_client import ManualWorker, first_listed
from tests.api.conftest import running
from tests.api.test_storing import MARK, all_erased
from tests.waiting import TIMEOUT_S

CHAT, RESPONSES, MODELS = "/openai/v1/chat/completions", "/openai/v1/responses", "/openai/v1/models"
DRAFT = "Pay now."
BODY: dict[str, Any] = {
    "model": "hone",
    "messages": [{"role": "user", "content": "Be kind."}, {"role": "assistant", "content": DRAFT}],
}
BETTER = "Please pay. " * 400
AGAIN = {"x-stainless-retry-count": "1"}


async def refined(api: httpx.AsyncClient, worker: WorkerStore, *, passed: bool = True) -> str:
    """Refine the first refinement that comes, as a worker does; return its id."""
    refinement_id = await first_listed(api, status="queued")
    manual = await ManualWorker.claim(worker, refinement_id)
    await manual.judge(0, DRAFT, 0.4)
    await manual.judge(1, BETTER, 0.9 if passed else 0.5)
    await manual.complete(passed=passed)
    return refinement_id


async def asked(
    api: httpx.AsyncClient, worker: WorkerStore, path: str = CHAT, **body: Any
) -> httpx.Response:
    """Ask, and let a worker refine what was asked for."""
    answer, _ = await asyncio.gather(api.post(path, json={**BODY, **body}), refined(api, worker))
    return answer


def error(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Return the error, which has to be this one, in OpenAI's form."""
    assert response.status_code == status, response.text
    found: dict[str, Any] = response.json()["error"]
    assert found.keys() == {"message", "type", "param", "code"}
    assert found["code"] == code, found
    return found


def chunks(response: httpx.Response) -> list[dict[str, Any]]:
    lines = [line for line in response.text.split("\n") if line.startswith("data: {")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


async def test_a_chat_is_answered_with_the_best_draft(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    answer = await asked(api, worker)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["object"] == "chat.completion"
    assert found["choices"][0]["message"]["content"] == BETTER
    assert found["choices"][0]["finish_reason"] == "stop"
    assert found["usage"]["total_tokens"] == 15
    assert (found["hone"]["outcome"], found["hone"]["iterations"]) == ("passed", 2)
    assert answer.headers["location"] == f"/v1/refinements/{found['id']}"
    request = (await api.get(f"{answer.headers['location']}/request")).json()
    assert (request["task"], request["draft"]) == ("Be kind.", DRAFT)


async def test_a_stream_has_the_draft_the_outcome_and_the_usage(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    answer = await asked(api, worker, stream=True, stream_options={"include_usage": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.endswith("data: [DONE]\n\n")
    assert answer.text.startswith("data: ")
    first, *pieces, last, usage = chunks(answer)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(it["choices"][0]["delta"]["content"] for it in pieces) == BETTER
    assert len(pieces) == 3
    assert (last["choices"][0]["finish_reason"], last["hone"]["outcome"]) == ("stop", "passed")
    assert (usage["choices"], usage["usage"]["total_tokens"]) == ([], 15)
    assert {it["id"] for it in (first, last, usage)} == {await first_listed(api)}


async def test_a_response_is_answered_whole_and_as_a_stream(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    given = {"metadata": {"a": "b"}, "max_output_tokens": 5000, "temperature": 0.5}
    body = {"model": "hone", "input": BODY["messages"], **given}
    whole, _ = await asyncio.gather(api.post(RESPONSES, json=body), refined(api, worker))
    found = whole.json()
    assert (found["object"], found["status"]) == ("response", "completed")
    assert {name: found[name] for name in given} == given
    assert found["output"][0]["content"][0]["text"] == BETTER
    posted = api.post(RESPONSES, json={**body, "stream": True})
    stream, _ = await asyncio.gather(posted, refined(api, worker))
    events = chunks(stream)
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    assert "".join(event.get("delta", "") for event in events) == BETTER
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == BETTER
    types = [line.removeprefix("event: ") for line in stream.text.split("\n") if "event: " in line]
    assert types == [event["type"] for event in events]
    assert (types[0], types[-1]) == ("response.created", "response.completed")


async def test_what_does_not_pass_is_the_best_draft_or_an_error_as_the_preset_says(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    best, _ = await asyncio.gather(api.post(CHAT, json=BODY), refined(api, worker, passed=False))
    assert best.json()["choices"][0]["message"]["content"] == BETTER
    assert (best.json()["hone"]["outcome"], best.json()["hone"]["caveats"]) == ("best_effort", [])
    await api.put("/v1/presets/mail", json={"metadata": {"must_pass": "true"}})
    for stream in (False, True):
        posted = api.post(CHAT, json={**BODY, "model": "hone:mail", "stream": stream})
        answer, refused = await asyncio.gather(posted, refined(api, worker, passed=False))
        found = chunks(answer)[-1]["error"] if stream else error(answer, 422, "not_passed")
        assert (found["code"], refused in found["message"]) == ("not_passed", True)


async def test_a_request_that_a_library_sends_again_begins_no_second_refinement(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    first = await asked(api, worker)
    again = await api.post(CHAT, json=BODY, headers=AGAIN)
    assert again.json() == first.json()
    own = {"metadata": {"ticket": "1"}}
    marked = await asked(api, worker, hone=own)
    again = await api.post(CHAT, json={**BODY, "hone": own}, headers=AGAIN)
    assert again.json()["id"] == marked.json()["id"] != first.json()["id"]
    other, _ = await asyncio.gather(api.post(CHAT, json=BODY), refined(api, worker))
    assert other.json()["id"] != first.json()["id"]


async def test_a_client_that_leaves_is_waited_for_unless_it_reads_a_stream(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    leaving = asyncio.create_task(api.post(CHAT, json=BODY))
    whole = await first_listed(api)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    async with api.stream("POST", CHAT, json={**BODY, "stream": True}) as response:
        streamed = response.headers["location"].rpartition("/")[2]
    left = await api.get(f"/v1/refinements/{streamed}", params={"wait": 60})
    assert left.json()["status"] == "canceled"
    assert (await api.get(f"/v1/refinements/{whole}")).json()["status"] == "queued"


@pytest.mark.parametrize("again", [AGAIN, {"Idempotency-Key": "one"}])
async def test_what_ended_with_its_stream_answers_no_repetition(
    api: httpx.AsyncClient, worker: WorkerStore, again: dict[str, str]
) -> None:
    body = {**BODY, "stream": True}
    async with api.stream("POST", CHAT, json=body, headers=again) as response:
        left = response.headers["location"]
    await api.get(left, params={"wait": 60})
    posted = api.post(CHAT, json=body, headers=again)
    answer, begun = await asyncio.gather(posted, refined(api, worker))
    assert (await api.get(left)).json()["status"] == "canceled"
    assert chunks(answer)[-1]["hone"]["outcome"] == "passed"
    third = await api.post(CHAT, json=body, headers=again)
    assert third.headers["location"].endswith(begun)


async def test_a_stream_that_closes_leaves_the_refinement_to_others_and_the_last_cancels_it(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    body, key = {**BODY, "stream": True}, {"Idempotency-Key": "one"}
    async with api.stream("POST", CHAT, json=body, headers=key) as second:
        lines = second.aiter_lines()
        await anext(lines)
        async with api.stream("POST", CHAT, json=body, headers=key) as first:
            assert first.headers["location"] == second.headers["location"]
        manual = await ManualWorker.claim(worker, await first_listed(api, status="queued"))
        await manual.judge(0, DRAFT, 0.4)
        async for line in lines:  # of the draft that was judged after the other one has closed
            if line.startswith(":"):
                break
        assert (await api.get(second.headers["location"])).json()["status"] == "running"
    assert second.headers["location"].endswith(await first_listed(api, status="canceling"))


async def test_a_draft_that_no_other_can_replace_is_sent_while_it_is_written(
    keyed_api: httpx.AsyncClient, keyed_worker: WorkerStore
) -> None:
    wanted = {"models": {"generator": "openai:gpt-5"}, "max_iterations": 1}
    await keyed_api.put("/v1/presets/quick", json=wanted)
    body = {"model": "hone:quick", "messages": BODY["messages"][:1], "stream": True}
    async with keyed_api.stream("POST", CHAT, json=body) as response:
        lines = response.aiter_lines()
        await anext(lines)
        refinement_id = response.headers["location"].rpartition("/")[2]
        manual = await ManualWorker.claim(keyed_worker, refinement_id)
        await keyed_worker.publish_text(refinement_id, "iterations/1/draft", 0, "Please ")
        sent = ""
        async for line in lines:
            if "Please" in line and not sent:
                await manual.judge(1, "Please pay.", 0.9)
                await manual.complete()
            if line.startswith("data: {"):
                delta = json.loads(line.removeprefix("data: "))["choices"][0]["delta"]
                sent += delta.get("content", "")
    assert sent == "Please pay."


async def test_text_that_is_not_to_be_stored_is_erased_once_it_was_sent(
    api: httpx.AsyncClient, worker: WorkerStore, redis_url: str
) -> None:
    for stream in (False, True):
        said = [{"role": "assistant", "content": f"{MARK} is the draft."}]
        answer = await asked(api, worker, store=False, stream=stream, messages=said)
        assert "Please pay." in answer.text
        await all_erased(redis_url)


async def test_models_are_presets(api: httpx.AsyncClient) -> None:
    await api.put("/v1/presets/mail", json={"threshold": 0.9})
    listed = (await api.get(MODELS)).json()["data"]
    assert [it["id"] for it in listed] == ["hone", "hone:mail"]
    assert (await api.get(f"{MODELS}/hone:mail")).json() == listed[1]
    error(await api.get(f"{MODELS}/gpt-5"), 404, "model_not_found")


async def test_errors_have_openais_form(api: httpx.AsyncClient) -> None:
    async def post(**body: Any) -> httpx.Response:
        return await api.post(CHAT, json={**BODY, **body})

    error(await post(model="gpt-5"), 404, "model_not_found")
    error(await post(model="hone:none"), 404, "model_not_found")
    assert error(await post(n=2), 400, "invalid_request")["param"] == "n"
    image = [{"role": "user", "content": [{"type": "image_url"}]}]
    refused = error(await post(messages=image), 400, "invalid_request")
    assert refused["param"] == "messages[0].content[0]"
    assert error(await post(temperature=7), 400, "invalid_request")["param"] == "temperature"
    hot = error(await post(hone={"threshold": 7}), 400, "invalid_request")
    assert (hot["param"], hot["type"]) == ("hone.threshold", "invalid_request_error")
    alone = error(await post(messages=BODY["messages"][:1]), 400, "invalid_request")
    assert alone["param"] == "messages"
    assert "offline:editor" in alone["message"]
    error(await post(hone={"review": {"when": "before_completion"}}), 400, "invalid_request")
    later = await post(hone={"start_after": "2126-01-31T20:00:00Z"})
    assert error(later, 400, "invalid_request")["param"] == "hone.start_after"
    form = {"type": "json_schema", "json_schema": {"schema": {"items": {"type": "objekt"}}}}
    param = "response_format.json_schema.schema.items.type"
    assert error(await post(response_format=form), 400, "invalid_request")["param"] == param
    bogus = await post(reasoning_effort="bogus")
    assert error(bogus, 400, "invalid_request")["param"] == "reasoning_effort"
    bogus = await api.post(
        RESPONSES, json={"model": "hone", "input": "Hi.", "reasoning": {"effort": "bogus"}}
    )
    assert error(bogus, 400, "invalid_request")["param"] == "reasoning.effort"
    error(await api.post("/openai/v1/embeddings", json={}), 404, "not_found")
    error(await api.get(CHAT), 405, "method_not_allowed")
    error(await post(messages=[{"role": "user", "content": "x" * 400_000}]), 413, "too_large")
    error(await api.post(CHAT, content=b"{}"), 415, "unsupported_media_type")


@pytest.fixture
async def keyless(settings: Settings, redis_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server on loopback that has no keys yet."""
    with running(settings.model_copy(update={"auth": "auto"})) as url:
        async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
            yield client


async def test_without_keys_the_placeholder_of_a_library_is_taken_for_none(
    keyless: httpx.AsyncClient,
) -> None:
    async def status(path: str = MODELS, **headers: str) -> int:
        return (await keyless.get(path, headers=headers)).status_code

    placeholder = {"Authorization": "Bearer sk-placeholder"}
    assert await status(**placeholder) == 200
    assert await status() == 200
    assert await status("/v1/presets", **placeholder) == 401
    assert await status(Authorization="Bearer hone_000000000000_" + "0" * 43) == 401
    assert await status(Authorization="Bearer honet_x.y") == 401
    assert await status(Authorization="Basic c2s6c2s=") == 401
    assert await status(**placeholder, **{"X-Forwarded-For": "192.0.2.1"}) == 401


async def test_where_keys_are_required_a_placeholder_is_none(
    settings: Settings, redis_url: str
) -> None:
    with running(settings.model_copy(update={"auth": "required"})) as url:
        async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
            sent = {"Authorization": "Bearer sk-placeholder"}
            found = error(await client.get(MODELS, headers=sent), 401, "unauthenticated")
    assert found["type"] == "authentication_error"


def test_a_draft_is_sent_while_it_is_written_and_never_taken_back() -> None:
    growing = GrowingAnswer()

    def grown(offset: int, text: str) -> str:
        return growing.grown(StepDelta(key="iterations/1/draft", offset=offset, text=text))

    assert grown(0, "Dear") == "Dear"
    assert grown(4, " Ann,") == " Ann,"
    assert growing.rest("Dear Ann,\n\nPay.") == "\n\nPay."
    assert grown(0, "Hello") == ""
    with pytest.raises(TextChanged):
        growing.rest("Hello Ann")
