"""Anthropic messages: https://platform.claude.com/docs/en/api/messages.

JSON is requested as structured output (`output_config.format`), else in the prompt alone: older
models do not support structured output, and newer ones reject a forced tool call.
"""

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from workers.models.port import ModelCall, UnreadableReply
from workers.models.remote import (
    NAMES_OF_JSON,
    AdapterFactory,
    ChatReply,
    Unwanted,
    counted,
    flaw_of,
    system_text,
)
from workers.outbound.transport import Request

VERSION = "2023-06-01"
STRUCTURED = "output_config"
INPUT_TOKENS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
CUT_OFF = frozenset({"max_tokens", "model_context_window_exceeded"})


class _Block(BaseModel):
    type: str
    text: str = ""


class _Message(BaseModel):
    model: str | None = None
    content: list[_Block]
    stop_reason: str | None = None
    usage: object = None


class Anthropic:
    """The Anthropic wire format, for one base URL and API key."""

    def __init__(self, base_url: str, api_key: str = "") -> None:
        self._url = base_url.rstrip("/").removesuffix("/v1") + "/v1/messages"
        self._key = api_key
        self._headers = {"anthropic-version": VERSION} | ({"x-api-key": api_key} if api_key else {})

    def request(self, call: ModelCall, unwanted: Unwanted) -> Request:
        """Return the request for one message, not streamed."""
        is_structured = call.prompt.schema is not None and STRUCTURED not in unwanted
        body: dict[str, object] = {
            "model": call.model,
            "max_tokens": call.max_output_tokens,
            "system": system_text(call.prompt, in_words=not is_structured),
            "messages": [{"role": "user", "content": call.prompt.user}],
        }
        if call.temperature is not None and "temperature" not in unwanted:
            body["temperature"] = call.temperature
        if is_structured:
            body[STRUCTURED] = {"format": {"type": "json_schema", "schema": call.prompt.schema}}
        return Request(self._url, self._headers, to_json(body), self._key)

    def refused(self, said: str, call: ModelCall, unwanted: Unwanted) -> str | None:
        """Return the parameter that an error names, if it was sent and can be left out."""
        if call.temperature is not None and "temperature" in said and "temperature" not in unwanted:
            return "temperature"
        is_structured = call.prompt.schema is not None and STRUCTURED not in unwanted
        is_named = any(name in said.lower() for name in NAMES_OF_JSON)
        return STRUCTURED if is_structured and is_named else None

    def read(self, body: bytes) -> ChatReply:
        """Return the text blocks of a message; thinking blocks are left out."""
        try:
            message = _Message.model_validate_json(body)
        except ValidationError:
            raise UnreadableReply("the response is not a valid Anthropic message") from None
        text = "".join(block.text for block in message.content if block.type == "text")
        flaw = flaw_of(
            text,
            is_cut_off=message.stop_reason in CUT_OFF,
            is_withheld=message.stop_reason == "refusal",
        )
        return ChatReply(
            text, message.model, counted(message.usage, INPUT_TOKENS, "output_tokens"), flaw
        )


ADAPTER: AdapterFactory = Anthropic
