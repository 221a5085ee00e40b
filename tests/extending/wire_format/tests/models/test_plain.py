"""Plain's wire format: what is sent, and what is read."""

import json

from app.settings import Settings
from benchmarks.model_replies import ModelServerReply
from benchmarks.model_server import ScriptedModelServer
from tests.models.calls import RecordingBehaviour, call, in_turn
from workers.model_registry import open_models

REPLY = {"text": "Hello.", "usage": {"input": 7, "output": 2}}


async def test_a_call_reaches_its_server_and_is_answered() -> None:
    behaviour = RecordingBehaviour(in_turn(ModelServerReply(body=json.dumps(REPLY).encode())))
    async with ScriptedModelServer(behaviour) as server:
        address = {"plain_base_url": server.url, "plain_api_key": "key-1"}
        async with open_models(Settings.model_validate(address)) as models:
            reply = await models.complete("plain:small", call())
    (asked,) = behaviour.asked
    assert (asked.path, asked.json["model"]) == ("/v1/generate", "small")
    assert asked.header("x-key") == "key-1"
    assert (reply.text, reply.usage.input_tokens, reply.usage.output_tokens) == ("Hello.", 7, 2)
