"""Providers that are reached over the network."""

from app.contract.providers import Provider

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
