"""The providers that Hone knows: two in the process, without network, key and cost, and others."""

from app.contract.providers import Provider

OFFLINE = Provider(name="offline", models=("editor",), writes=False, costs=False)
SCRIPTED = Provider(name="scripted", costs=False, is_offered=False)


OPENAI = Provider(
    name="openai",
    wire="openai",
    base_url="https://api.openai.com/v1",
    address="Base URL of an OpenAI-compatible server, for `openai:NAME`.",
    needs_key=True,
)
ANTHROPIC = Provider(
    name="anthropic",
    wire="anthropic",
    base_url="https://api.anthropic.com",
    address="Base URL of the Anthropic API, for `anthropic:NAME`.",
    needs_key=True,
)
