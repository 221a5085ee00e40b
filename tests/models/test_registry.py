import asyncio
import logging
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from app.contract.providers import PROVIDERS, Provider
from app.settings import ModelServer, Settings
from benchmarks.model_replies import AskedPrompt, ModelServerReply, chat, refusal
from benchmarks.model_server import ScriptedModelServer as Server
from tests.models.calls import RecordingBehaviour, call, in_turn
from workers.model_registry import ModelRegistry, open_models
from workers.models.port import ModelRefused, ModelWaits
from workers.models.rate_limiter import MOST_GATES
from workers.models.scripted import Scripted
from workers.models.scripted import in_turn as lines

SECRET = "sk-very-secret-1234"


def settings(**changes: object) -> Settings:
    return Settings(_env_file=None, **changes)  # type: ignore[arg-type]


async def test_a_server_of_ones_own_is_called_by_its_name() -> None:
    behaviour = RecordingBehaviour(in_turn(chat("done")))
    async with Server(behaviour) as server:
        local = ModelServer(base_url=server.url, api_key=SecretStr(SECRET))
        async with open_models(settings(providers={"local": local})) as models:
            reply = await models.complete("local:llama3:8b", call())
    (asked,) = behaviour.asked
    assert asked.json["model"] == "llama3:8b"
    assert asked.header("authorization") == f"Bearer {SECRET}"
    assert reply.usage.cost_usd is None


WIRE = {
    "openai": ("/v1/chat/completions", "authorization"),
    "anthropic": ("/v1/messages", "x-api-key"),
}
"""By wire format: the path of a call, and the header that has the key."""


@pytest.mark.parametrize("provider", [it for it in PROVIDERS if it.wire in WIRE])
async def test_a_providers_own_address_and_key_are_settings(provider: Provider) -> None:
    behaviour = RecordingBehaviour(in_turn(refusal(404, "no such model")))
    async with Server(behaviour) as server:
        address = {provider.base_url_setting: server.url, provider.api_key_setting: SECRET}
        async with open_models(settings(**address)) as models:
            with pytest.raises(ModelRefused):
                await models.complete(f"{provider.name}:x", call())
    path, field = WIRE[str(provider.wire)]
    assert behaviour.asked[0].path == path
    assert SECRET in (behaviour.asked[0].header(field) or "")


@pytest.mark.parametrize("name", ["nobody:x", "offline:writer", "scripted:x", "openai", ""])
async def test_an_unknown_model_is_refused_with_the_settings_that_add_one(name: str) -> None:
    known = ", ".join(sorted(it.name for it in PROVIDERS if it.is_offered))
    async with open_models(settings(openai_api_key=SECRET)) as models:
        with pytest.raises(ModelRefused, match=rf"{known}; set HONE_PROVIDER_"):
            await models.complete(name, call())


@pytest.mark.parametrize("provider", [it for it in PROVIDERS if it.needs_key])
@pytest.mark.parametrize("key", [None, ""])
async def test_a_provider_without_its_key_says_which_setting_is_missing(
    provider: Provider, key: str | None
) -> None:
    async with open_models(settings(**{provider.api_key_setting: key})) as models:
        with pytest.raises(ModelWaits, match=f"set {provider.name.upper()}_API_KEY") as caught:
            await models.complete(f"{provider.name}:x", call())
    assert (caught.value.reason, caught.value.is_open) == ("unauthorized", True)


async def test_a_model_may_be_passed_in() -> None:
    async with open_models(settings(), scripted=Scripted(lines("said"))) as models:
        assert (await models.complete("scripted:any", call())).text == "said"


def parrot(asked: AskedPrompt) -> ModelServerReply:
    """A server that repeats the key in its refusal."""
    return refusal(401, f"Incorrect API key provided: {asked.header('authorization')}")


async def test_a_worker_forgets_names_of_models_that_nothing_waits_for() -> None:
    models = ModelRegistry({"p": Scripted(lines("reply"))}, describe=lambda _name: ("f", None))
    for number in range(MOST_GATES + 9):
        await models.permits(f"p:{number}", 1)
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) <= MOST_GATES + 1
    assert (await models.complete("p:0", call())).text == "reply"


async def test_a_key_is_in_no_error_and_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with Server(parrot) as server:
        address = settings(openai_base_url=server.url, openai_api_key=SECRET)
        async with open_models(address) as models:
            with pytest.raises(ModelWaits, match=r"Bearer \*\*\*") as caught:
                await models.complete("openai:x", call())
    shown = [repr(caught.value), str(vars(caught.value)), repr(address), caplog.text]
    assert not [text for text in shown if SECRET in text]


async def test_a_short_key_leaves_the_words_of_an_error() -> None:
    async with Server(in_turn(refusal(404, "No token is like k, and k is unknown"))) as server:
        address = settings(openai_base_url=server.url, openai_api_key="k")
        async with open_models(address) as models:
            with pytest.raises(
                ModelRefused, match=r"No token is like \*\*\*, and \*\*\* is unknown"
            ):
                await models.complete("openai:x", call())


def test_servers_are_named_by_variables(tmp_path: Path) -> None:
    env_file = tmp_path / "env"
    env_file.write_text(
        "HONE_PROVIDER_LOCAL_BASE_URL=http://127.0.0.1:11434/v1\n"
        "HONE_PROVIDER_LOCAL_API_KEY=\n"
        "HONE_PROVIDER_BIG_ONE_BASE_URL=https://big.example/v1\n"
        f"HONE_PROVIDER_BIG_ONE_API_KEY={SECRET}\n"
        "HONE_PROVIDER_UNUSED_BASE_URL=\n"
    )
    named = Settings(_env_file=env_file).providers
    assert named.keys() == {"local", "big_one"}
    assert named["local"] == ModelServer(base_url="http://127.0.0.1:11434/v1")
    assert named["big_one"].api_key == SecretStr(SECRET)


@pytest.mark.parametrize(
    "providers",
    [
        {"openai": {"base_url": "http://127.0.0.1", "api_key": SECRET}},
        {"local": {"base_url": "ftp://127.0.0.1", "api_key": SECRET}},
        {"local": {"api_key": SECRET}},
        {"Local!": {"base_url": "http://127.0.0.1", "api_key": SECRET}},
    ],
)
def test_a_server_that_cannot_be_reached_by_its_name_is_refused_and_its_key_not_shown(
    providers: dict[str, dict[str, str]],
) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(providers=providers)
    assert SECRET not in str(caught.value)
