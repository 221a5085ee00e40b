"""OpenAI chat completions: OpenAI itself, Azure, and every server with a compatible API.

https://platform.openai.com/docs/api-reference/chat. A base URL with `api-version` in its query is
Azure's older form: the query stays, and the key goes into `api-key`. JSON is requested as
`json_schema`, else as `json_object`, else in the prompt alone. OpenAI shows the schema to the
model; other servers get that of a document in the prompt as well.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import to_json

from app.contract.providers import TokenCount
from workers.models.port import ModelCall, ReplyRefused, UnreadableReply
from workers.models.remote import (
    EFFORT,
    STREAM,
    STREAM_OPTIONS,
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
    refused_bounds,
    refused_effort,
    unwanted_stream,
    user_text,
)
from workers.outbound.transport import MOST_SHOWN, Request

TEXT_PARTS = frozenset({"text", "output_text"})
"""Types of the parts of a content that are its text; others are thinking."""
JSON_FORMATS = ("json_schema", "json_object")
GOOD_ENDINGS = frozenset(
    {
        *("stop", "stopsequence", "stoptoken", "eos", "eostoken", "eosfound", "finishreasonstop"),
        *("end", "endturn", "endoftext", "complete", "completed"),
        *("finish", "finished", "done", "normal", ""),
    }
)
"""Why a model stops that has said everything, its letters in lower case: OpenAI's `stop`, and its
names at Text Generation Inference, Together, watsonx, Cohere, Titan, ERNIE and Vertex AI. Many
small servers say nothing."""
TOKEN_LIMITS = ("max_tokens", "max_completion_tokens")
AZURE_HOSTS = (".openai.azure.com", ".services.ai.azure.com")
OPENAI_HOSTS = ("api.openai.com", *AZURE_HOSTS)
CACHE_KEY_HOSTS = ("api.openai.com",)
CACHE_KEY = "prompt_cache_key"
"""Calls with the same key are sent to the machine that has their common prefix in its cache."""


class _Part(BaseModel):
    type: str = "text"
    text: str = ""


class _Message(BaseModel):
    content: str | list[_Part] | None = None
    refusal: str | None = None

    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content if part.type in TEXT_PARTS)
        return self.content or ""


class _Choice(BaseModel):
    message: _Message = _Message()  # Azure leaves it out of a reply that its filter withholds
    finish_reason: str | None = None


class _PromptDetails(BaseModel):
    cached_tokens: Count = None
    cache_write_tokens: Count = None
    cache_creation_tokens: Count = None


class _OutputDetails(BaseModel):
    reasoning_tokens: Count = None


class _Usage(BaseModel):
    prompt_tokens: Count = None
    completion_tokens: Count = None
    total_tokens: Count = None
    prompt_cache_hit_tokens: Count = None
    prompt_tokens_details: Annotated[_PromptDetails | None, NoneIfInvalid] = None
    completion_tokens_details: Annotated[_OutputDetails | None, NoneIfInvalid] = None

    def counted(self) -> TokenCount | None:
        """Return the tokens of a call. What the total has beyond input and output is thinking,
        which Gemini and others leave out of `completion_tokens`."""
        asked, said = self.prompt_tokens, self.completion_tokens
        read, written, thinking = self.prompt_cache_hit_tokens or 0, 0, 0
        if details := self.prompt_tokens_details:
            read = details.cached_tokens or read
            written = details.cache_write_tokens or details.cache_creation_tokens or 0
        if self.completion_tokens_details:
            thinking = self.completion_tokens_details.reasoning_tokens or 0
        beyond = (self.total_tokens or 0) - (asked or 0) - (said or 0)
        if said is not None and beyond > 0:
            said, thinking = said + beyond, beyond
        return counted(asked, said, cached=read, written=written, thinking=thinking)


class _Completion(BaseModel):
    model: str | None = None
    choices: list[_Choice] = Field(min_length=1)
    usage: Annotated[_Usage | None, NoneIfInvalid] = None


class OpenAI:
    """The OpenAI wire format, for one base URL and API key."""

    def __init__(self, base_url: str, api_key: str = "") -> None:
        url = urlsplit(base_url)
        self._url = url._replace(path=url.path.rstrip("/") + "/chat/completions").geturl()
        self._key = api_key
        self._headers = _key_field(api_key, "api-version" in parse_qs(url.query))
        # OpenAI's newer models reject the old name; other servers often ignore the new one.
        host = url.hostname or ""
        is_openai = host.endswith(OPENAI_HOSTS)
        self._has_cache_keys = host.endswith(CACHE_KEY_HOSTS)
        self._limits = TOKEN_LIMITS[::-1] if is_openai else TOKEN_LIMITS
        self._shows_schemas = is_openai
        self._takes_bounds = not host.endswith(AZURE_HOSTS)

    def request(self, call: ModelCall, unwanted: Unwanted) -> Request:
        """Return the request for one completion."""
        json_format = _json_format(call, unwanted)
        schema = format_schema(call, unwanted, takes_bounds=self._takes_bounds)
        # A grammar alone does not tell a model what the members of a document are for.
        is_whole = self._shows_schemas and schema == call.prompt.schema
        is_told = not call.prompt.is_document or is_whole
        wants_words = call.prompt.schema is not None and (
            json_format != "json_schema" or not is_told
        )
        body: dict[str, object] = {
            "model": call.model,
            "messages": [
                {"role": "system", "content": call.prompt.system},
                {"role": "user", "content": user_text(call.prompt, in_words=wants_words)},
            ],
        }
        if limit := _first(self._limits, unwanted):
            body[limit] = call.max_output_tokens
        if call.temperature is not None and "temperature" not in unwanted:
            body["temperature"] = call.temperature
        if effort := effort_of(call, unwanted):
            body[EFFORT] = effort
        if self._has_cache_keys and CACHE_KEY not in unwanted:
            body[CACHE_KEY] = call.key.partition("/")[0]
        if json_format == "json_schema":
            named = {"name": call.prompt.name, "schema": schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        elif json_format:
            body["response_format"] = {"type": json_format}
        if call.is_streamed and STREAM not in unwanted:
            body[STREAM] = True
            if STREAM_OPTIONS not in unwanted:
                body[STREAM_OPTIONS] = {"include_usage": True}
        return Request(self._url, self._headers, to_json(body), self._key)

    def refused(self, said: str, call: ModelCall, unwanted: Unwanted) -> str | None:
        """Return the parameter that an error names, if it was sent and can be left out."""
        if part := unwanted_stream(said, call, unwanted):
            return part
        limit = _first(self._limits, unwanted)
        if limit and limit in said and limit == self._limits[0]:
            return limit
        if call.temperature is not None and "temperature" in said and "temperature" not in unwanted:
            return "temperature"
        if self._has_cache_keys and CACHE_KEY in said and CACHE_KEY not in unwanted:
            return CACHE_KEY
        json_format = _json_format(call, unwanted)
        if json_format and names_json(said):
            has_bounds = json_format == "json_schema" and self._takes_bounds
            return (has_bounds and refused_bounds(said, call, unwanted)) or json_format
        return refused_effort(said, call, unwanted)

    def read(self, body: bytes) -> ChatReply:
        """Return the text of a completion; one that is truncated or withheld has a flaw."""
        try:
            completion = _Completion.model_validate_json(body)
        except ValidationError:
            raise UnreadableReply("the response is not a valid chat completion") from None
        choice = completion.choices[0]
        text = choice.message.text()
        tokens = completion.usage.counted() if completion.usage else None
        if refusal := choice.message.refusal:
            declined = ReplyRefused(f"the model refused: {refusal[:MOST_SHOWN]}")
            return ChatReply(text + refusal, completion.model, tokens, declined)
        flaw = flaw_of(text, choice.finish_reason, GOOD_ENDINGS)
        return ChatReply(text, completion.model, tokens, flaw, choice.finish_reason)

    def parts(self) -> "_Chunks":
        """Return what merges the chunks of a completion."""
        return _Chunks()


class _Chunks(StreamParts):
    """The chunks of one completion; the first choice only, without `reasoning_content`."""

    def __init__(self) -> None:
        super().__init__()
        self._refusals: list[str] = []
        self._finish_reason: object = None
        self._known: dict[str, object] = {}

    def merge(self, event: Mapping[str, Any]) -> int:
        """Take one chunk. An error in the stream raises `StreamFailed`."""
        if error := event.get("error"):
            raise failed(error)
        for name in ("model", "usage"):
            if value := event.get(name):
                self._known[name] = value
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict) or choice.get("index"):
            return 0
        if (reason := choice.get("finish_reason")) and reason != "null":
            self._finish_reason, self.is_complete = reason, True
        delta = choice.get("delta") or choice.get("message")
        if not isinstance(delta, dict):
            return 0
        if text := content_text(delta.get("content")):
            self._texts.append(text)
        if refusal := content_text(delta.get("refusal")):
            self._refusals.append(refusal)
        return len(text) + len(refusal)

    def body(self) -> bytes:
        message = {"content": self.text(), "refusal": "".join(self._refusals) or None}
        choice = {"message": message, "finish_reason": self._finish_reason}
        return json.dumps({**self._known, "choices": [choice]}).encode()


ADAPTER: AdapterFactory = OpenAI


def _key_field(api_key: str, is_azure: bool) -> dict[str, str]:
    if not api_key:
        return {}
    return {"api-key": api_key} if is_azure else {"Authorization": f"Bearer {api_key}"}


def _first(names: tuple[str, ...], unwanted: Unwanted) -> str | None:
    for name in names:
        if name not in unwanted:
            return name
    return None


def _json_format(call: ModelCall, unwanted: Unwanted) -> str | None:
    return _first(JSON_FORMATS, unwanted) if call.prompt.schema is not None else None
