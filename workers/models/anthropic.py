"""Anthropic messages: https://platform.claude.com/docs/en/api/messages.

JSON is requested as structured output (`output_config.format`), else in the prompt alone: older
models do not support structured output, and newer ones reject a forced tool call. Thinking is
adaptive with an effort (`output_config.effort`), with older models extended with a budget
(https://platform.claude.com/docs/en/build-with-claude/thinking). The beginning that calls share is
marked for the cache, if it is long enough (https://platform.claude.com/docs/en/build-with-claude/
prompt-caching).
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from app.contract.budget import tokens_in
from app.contract.models import ReasoningEffort
from app.contract.providers import TokenCount, capacity_of
from workers.models.port import ModelCall, UnreadableReply
from workers.models.remote import (
    EFFORT,
    STREAM,
    AdapterFactory,
    ChatReply,
    Count,
    NoneIfInvalid,
    StreamParts,
    Unwanted,
    content_text,
    counted,
    effort_of,
    failed,
    flaw_of,
    format_schema,
    names_json,
    refused_effort,
    unwanted_stream,
    user_text,
)
from workers.outbound.transport import Request

VERSION = "2023-06-01"
STRUCTURED = "output_config"
"""The part of a request with the format of the reply; the effort stands there too."""
ADAPTIVE = "adaptive thinking"
THINKING = "thinking"
THINKING_BUDGET: dict[ReasoningEffort, int] = {
    "minimal": 1_024,
    "low": 2_048,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 32_768,
    "max": 65_536,
}
"""Tokens of extended thinking, by effort; 1,024 is the least that the API accepts."""
CACHEABLE_FROM = 1_024
"""Tokens of the shortest prefix that is cached with a model that is not in the list."""
GOOD_ENDINGS = frozenset({"endturn", "stopsequence", "stop"})
"""Why a model stops that has said everything; `stop` is what some compatible servers say."""


class _Block(BaseModel):
    type: str
    text: str = ""


class _OutputDetails(BaseModel):
    thinking_tokens: Count = None


class _Usage(BaseModel):
    input_tokens: Count = None
    output_tokens: Count = None
    cache_read_input_tokens: Count = None
    cache_creation_input_tokens: Count = None
    output_tokens_details: Annotated[_OutputDetails | None, NoneIfInvalid] = None

    def counted(self) -> TokenCount | None:
        """Return the tokens of a call. `input_tokens` does not contain tokens of the cache."""
        read = self.cache_read_input_tokens or 0
        written = self.cache_creation_input_tokens or 0
        asked, details = self.input_tokens, self.output_tokens_details
        return counted(
            None if asked is None else asked + read + written,
            self.output_tokens,
            cached=read,
            written=written,
            thinking=(details and details.thinking_tokens) or 0,
        )


class _Message(BaseModel):
    model: str | None = None
    content: list[_Block]
    stop_reason: str | None = None
    usage: Annotated[_Usage | None, NoneIfInvalid] = None


class Anthropic:
    """The Anthropic wire format, for one base URL and API key."""

    def __init__(self, base_url: str, api_key: str = "") -> None:
        self._url = base_url.rstrip("/").removesuffix("/v1") + "/v1/messages"
        self._key = api_key
        self._headers = {"anthropic-version": VERSION} | ({"x-api-key": api_key} if api_key else {})

    def request(self, call: ModelCall, unwanted: Unwanted) -> Request:
        """Return the request for one message."""
        is_structured = call.prompt.schema is not None and STRUCTURED not in unwanted
        schema = format_schema(call, unwanted, takes_bounds=False)
        in_words = not is_structured or schema != call.prompt.schema
        body: dict[str, object] = {
            "model": call.model,
            "max_tokens": call.max_output_tokens,
            "system": call.prompt.system,
            "messages": [{"role": "user", "content": _content(call, in_words=in_words)}],
        }
        thinking, effort = _thinking(call, unwanted)
        if thinking:
            body[THINKING] = thinking
        thinks = thinking is not None and thinking["type"] != "disabled"
        if call.temperature is not None and "temperature" not in unwanted and not thinks:
            body["temperature"] = call.temperature
        config: dict[str, object] = {"effort": effort} if effort else {}
        if is_structured:
            config["format"] = {"type": "json_schema", "schema": schema}
        if config:
            body[STRUCTURED] = config
        if call.is_streamed and STREAM not in unwanted:
            body[STREAM] = True
        return Request(self._url, self._headers, to_json(body), self._key)

    def refused(self, said: str, call: ModelCall, unwanted: Unwanted) -> str | None:
        """Return the parameter that an error names, if it was sent and can be left out."""
        if part := unwanted_stream(said, call, unwanted):
            return part
        if call.temperature is not None and "temperature" in said and "temperature" not in unwanted:
            return "temperature"
        is_structured = call.prompt.schema is not None and STRUCTURED not in unwanted
        if part := _refused_thinking(said.lower(), call, unwanted):
            return part
        return STRUCTURED if is_structured and names_json(said) else None

    def read(self, body: bytes) -> ChatReply:
        """Return the text blocks of a message; thinking blocks are left out."""
        try:
            message = _Message.model_validate_json(body)
        except ValidationError:
            raise UnreadableReply("the response is not a valid Anthropic message") from None
        text = "".join(block.text for block in message.content if block.type == "text")
        flaw = flaw_of(text, message.stop_reason, GOOD_ENDINGS)
        tokens = message.usage.counted() if message.usage else None
        return ChatReply(text, message.model, tokens, flaw, message.stop_reason)

    def parts(self) -> "_Events":
        """Return what merges the events of a message."""
        return _Events()


class _Events(StreamParts):
    """The events of one message; thinking is left out."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[str, object] = {}
        self._usage: dict[str, object] = {}

    def merge(self, event: Mapping[str, Any]) -> int:
        """Take one event. An error in the stream raises `StreamFailed`."""
        kind = event.get("type")
        if kind == "error" or event.get("error"):
            raise failed(event.get("error"))
        found = event.get(_HOLDERS.get(str(kind), ""))
        found = found if isinstance(found, dict) else {}
        if kind in {"message_start", "message_delta"}:
            self._known |= {
                name: found[name] for name in ("model", "stop_reason") if found.get(name)
            }
            self.is_complete = "stop_reason" in self._known
            usage = found.get("usage") if kind == "message_start" else event.get("usage")
            if isinstance(usage, dict):
                self._usage |= {name: count for name, count in usage.items() if count is not None}
        elif kind in {"content_block_start", "content_block_delta"}:
            text = content_text([found | {"type": _IS_TEXT.get(str(found.get("type")), "")}])
            self._texts += [text] if text else []
            return len(text)
        return 0

    def body(self) -> bytes:
        content = [{"type": "text", "text": self.text()}]
        return json.dumps({**self._known, "content": content, "usage": self._usage}).encode()


_HOLDERS = {
    "message_start": "message",
    "message_delta": "delta",
    "content_block_start": "content_block",
    "content_block_delta": "delta",
}
_IS_TEXT = {"text": "text", "text_delta": "text"}


ADAPTER: AdapterFactory = Anthropic


def _content(call: ModelCall, *, in_words: bool) -> str | list[dict[str, object]]:
    """Return the user's message; what calls share is a block of its own, marked for the cache.

    A prefix that is too short is not marked: it would not be cached.
    """
    user = user_text(call.prompt, in_words=in_words)
    shared = user[: call.prompt.shared]
    capacity = capacity_of(f"anthropic:{call.model}")
    least = (capacity and capacity.cacheable_from) or CACHEABLE_FROM
    if not shared or tokens_in(call.prompt.system) + tokens_in(shared) < least:
        return user
    marked: dict[str, object] = {"cache_control": {"type": "ephemeral"}}
    blocks: list[dict[str, object]] = [{"type": "text", "text": shared, **marked}]
    rest = user[call.prompt.shared :]
    return [*blocks, {"type": "text", "text": rest}] if rest else blocks


def _thinking(call: ModelCall, unwanted: Unwanted) -> tuple[dict[str, object] | None, str | None]:
    """Return how the model is to think, and its effort; None for what is not sent."""
    effort = effort_of(call, unwanted)
    if effort is None or THINKING in unwanted:
        return None, None
    if effort == "none":
        return {"type": "disabled"}, None
    if ADAPTIVE not in unwanted:
        return {"type": "adaptive"}, "low" if effort == "minimal" else effort
    budget = min(THINKING_BUDGET[effort], call.max_output_tokens // 2)
    if budget < THINKING_BUDGET["minimal"]:
        return None, None
    return {"type": "enabled", "budget_tokens": budget}, None


def _refused_thinking(said: str, call: ModelCall, unwanted: Unwanted) -> str | None:
    """Return what an error (lower case) rejects of how the model is to think."""
    thinking, effort = _thinking(call, unwanted)
    if thinking is None or not ("thinking" in said or "effort" in said):
        return None
    if effort and "adaptive" not in said and "thinking" not in said:
        level = refused_effort(said, call, unwanted)
        return ADAPTIVE if level == EFFORT else level
    return ADAPTIVE if thinking["type"] == "adaptive" else THINKING
