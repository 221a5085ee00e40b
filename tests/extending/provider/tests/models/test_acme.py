"""Acme is called at its address, with its key, in OpenAI's format."""

from app.settings import Settings
from benchmarks.model_replies import chat
from benchmarks.model_server import ScriptedModelServer
from tests.models.calls import RecordingBehaviour, call, in_turn
from workers.model_registry import open_models


async def test_a_call_reaches_its_server_and_is_answered() -> None:
    behaviour = RecordingBehaviour(in_turn(chat("Hello.")))
    async with ScriptedModelServer(behaviour) as server:
        address = {"acme_base_url": server.url, "acme_api_key": "key-1"}
        async with open_models(Settings.model_validate(address)) as models:
            reply = await models.complete("acme:large", call())
    (asked,) = behaviour.asked
    assert (asked.path, asked.json["model"]) == ("/v1/chat/completions", "large")
    assert asked.header("authorization") == "Bearer key-1"
    assert reply.text == "Hello."
