"""The rule by which a request in OpenAI's form becomes a refinement: `docs/openai.md`. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.contract.errors import FieldError, InvalidRequest, NotFound, pointer_to
from app.contract.requests import PRESET_NAME

MODEL = "hone"
"""The model of requests that name no preset; the name of one follows it after a colon."""

DRAFT = "draft"
"""The `name` that marks an assistant's message as the draft."""

TAGS = "<draft>", "</draft>"
"""What a draft stands between in the message of a user."""

MOST_INSTRUCTIONS = 4_000
FOR_THE_CRITIC = "The writer had these instructions, and a draft that ignores them is bad:\n"
CONVERSATION = "conversation"
"""Name of the context document with the earlier messages."""

CHARACTERS_PER_TOKEN = 4
MOST_CHARACTERS = 1_000_000
BODY_SHA256 = "openai_body"
"""In the metadata: by it the library's own repetition of a request finds the refinement."""

MOST_METADATA = 16

IGNORED = frozenset(
    (
        "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "include",
        "parallel_tool_calls", "stream_options",
    )
)  # fmt: skip
"""Parameters that change nothing in the answer."""

WITHOUT_EFFECT: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "top_p": (1,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "stop": ([],),
    "tools": ([],),
    "functions": ([],),
    "tool_choice": ("auto", "none"),
    "function_call": ("auto", "none"),
    "modalities": (["text"],),
    "service_tier": ("auto", "default"),
    "verbosity": ("medium",),
    "truncation": ("auto", "disabled"),
    "background": (False,),
}
"""Parameters that have no meaning here, with the values that ask for nothing."""

TEXTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
"""The types of parts that are texts, and the members that have them."""


@dataclass(frozen=True, slots=True)
class Interface:
    """One of the two forms of requests: what it calls the things that both have."""

    messages: str
    """The parameter with the conversation."""
    format: str
    """The parameter with the format of the answer."""
    schema: str
    """The path of the JSON Schema in that."""
    effort: str
    """The path of the effort of reasoning."""
    limits: tuple[str, ...]
    """The parameters with the most tokens of the answer."""


CHAT = Interface(
    "messages",
    "response_format",
    "response_format/json_schema/schema",
    "reasoning_effort",
    ("max_completion_tokens", "max_tokens"),
)
RESPONSES = Interface(
    "input", "text", "text/format/schema", "reasoning/effort", ("max_output_tokens",)
)

Fields = Mapping[str, Any]


class ModelNotFound(NotFound):
    """There is no model, that is no preset, of this name."""

    code, title = "model_not_found", "There is no such model"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation, and where it stands in the body."""

    role: str
    text: str
    name: str | None
    pointer: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A request in OpenAI's form, read."""

    interface: Interface
    model: str
    preset: str | None
    """The preset that the model names; None: that of requests that name none."""
    is_stream: bool
    has_usage: bool
    """Whether the stream is to end with the usage."""
    is_json: bool
    added: Fields
    """What is added to the same fields of the preset."""
    settings: Fields
    """Settings of the generator."""
    own: Fields
    """Fields of Hone itself, the member `hone`: they lie over everything else."""
    given: Fields
    """The parameters, for an answer that has them again."""

    def over(self, preset: Fields, default_model: str) -> dict[str, Any]:
        """Return the fields that lie over those of a preset; what adds up has them in it."""
        found = dict(self.added)
        if task := _joined(preset.get("task"), found.get("task")):
            found["task"] = task
        if added := found.pop("instructions", None):
            found |= _instructions(preset, found, added)
        if said := found.pop("context", None):
            found["context"] = [*preset.get("context", ()), said]
            if not preset.get("context"):
                # What a chat says is not all that may be known.
                found["grounding"] = preset.get("grounding", "open")
        if validators := found.pop("validators", None):
            found["validators"] = [*preset.get("validators", ()), *validators]
        if self.settings:
            models = preset.get("models") or {}
            if models.get("candidates"):
                parameter = self._parameter(f"/models/{next(iter(self.settings))}")
                raise _wrong(parameter, "the preset draws its model among candidates: omit it")
            named = models.get("generator") or default_model
            found["models"] = {**models, "generator": self._with_settings(named)}
        return found | {"metadata": {**preset.get("metadata", {}), **found.get("metadata", {})}}

    def _with_settings(self, named: Any) -> Any:
        if isinstance(named, list):
            return [self._with_settings(each) for each in named]
        return {**(named if isinstance(named, dict) else {"model": named}), **self.settings}

    def blamed(self, error: InvalidRequest) -> InvalidRequest:
        """Return an error of the whole request; it names the parameters of this form."""
        return InvalidRequest.at(
            *(
                FieldError(pointer=self._parameter(wrong.pointer), detail=wrong.detail)
                for wrong in error.errors
            )
        )

    def _parameter(self, pointer: str) -> str:
        field = pointer.partition("/")[2].partition("/")[0]
        if field in self.own:
            return f"/hone{pointer}"
        if field == "models":
            settings = {"temperature": "temperature", "reasoning_effort": self.interface.effort}
            return f"/{settings.get(pointer.rpartition('/')[2], 'model')}"
        if field == "validators":
            _, has_schema, within = pointer.partition("/schema")
            return f"/{self.interface.schema if has_schema else self.interface.format}{within}"
        of_messages = ("", "task", "draft", "context", "instructions", "grounding")
        given = dict.fromkeys(of_messages, f"/{self.interface.messages}")
        given["metadata"] = pointer
        return given.get(field, "/model")  # a field of the preset


def _joined(*texts: str | None) -> str:
    return "\n\n".join(text for text in texts if text)


def _instructions(preset: Fields, found: Fields, added: str) -> Fields:
    """Return instructions for both roles; what is too long for them becomes a part of the task."""
    before = preset.get("instructions") or {}
    instructions = {
        "generator": _joined(before.get("generator"), added),
        "critic": _joined(before.get("critic"), f"{FOR_THE_CRITIC}{added}"),
    }
    if max(map(len, instructions.values())) <= MOST_INSTRUCTIONS:
        return {"instructions": instructions}
    return {"task": _joined(added, found.get("task"))}


def chat_asked(body: Any) -> Asked:
    """Return what the body of a chat completion asks for; raise InvalidRequest or ModelNotFound."""
    known = {"max_tokens", "max_completion_tokens", "reasoning_effort", "response_format"}
    given = _given(body, CHAT, known)
    named = _model(given.get("model"))
    format_ = _object(given.get("response_format", {}), "/response_format")
    schema = format_.get("json_schema") or {}
    messages = list(_messages(given.get("messages"), "/messages"))
    options = _object(given.get("stream_options", {}), "/stream_options")
    efforts = {"reasoning_effort": given.get("reasoning_effort")}
    has_usage = options.get("include_usage") is True
    return _asked(given, CHAT, named, messages, format_, schema, efforts, has_usage=has_usage)


def response_asked(body: Any) -> Asked:
    """Return what the body of a response asks for; raise InvalidRequest or ModelNotFound."""
    given = _given(body, RESPONSES, {"instructions", "max_output_tokens", "reasoning", "text"})
    named = _model(given.get("model"))
    text = _object(given.get("text", {}), "/text")
    if text.get("verbosity") not in (None, "medium"):
        raise _wrong("/text/verbosity", "is not supported")
    format_ = _object(text.get("format") or {}, "/text/format")
    said = given.get("input")
    listed = [{"role": "user", "content": said}] if isinstance(said, str) else said
    messages = list(_messages(listed, "/input"))
    if lead := _text(given.get("instructions"), "/instructions"):
        messages.insert(0, Message("system", lead, None, "/instructions"))
    reasoning = _object(given.get("reasoning", {}), "/reasoning")
    efforts = {"reasoning_effort": reasoning.get("effort")}
    return _asked(given, RESPONSES, named, messages, format_, format_, efforts, has_usage=True)


def _asked(
    given: Fields,
    interface: Interface,
    named: tuple[str, str | None],
    messages: Sequence[Message],
    format_: Fields,
    schema: Any,
    efforts: Fields,
    *,
    has_usage: bool,
) -> Asked:
    added = _conversation(messages, interface.messages)
    validators = [*_format(format_, schema, interface), *_length(given, interface)]
    kept = {name: given[name] for name in ("metadata", "store") if name in given}
    _object(kept.get("metadata", {}), "/metadata")
    if kept.get("store") is True:
        del kept["store"]  # the default; a preset may say otherwise
    settings = {"temperature": given.get("temperature"), **efforts}
    if settings["temperature"] == 1:
        del settings["temperature"]  # OpenAI's default
    own = _object(given.get("hone", {}), "/hone")
    if "preset" in own:
        raise _wrong("/hone/preset", f"name the preset in `model`, as {MODEL}:NAME")
    stream = given.get("stream", False)
    if not isinstance(stream, bool):
        raise _wrong("/stream", "must be true or false")
    return Asked(
        interface,
        *named,
        is_stream=stream,
        has_usage=has_usage,
        is_json=format_.get("type") in ("json_object", "json_schema"),
        added={**added, **kept, **({"validators": validators} if validators else {})},
        settings={name: value for name, value in settings.items() if value is not None},
        own=own,
        given=given,
    )


def _given(body: Any, interface: Interface, known: set[str]) -> dict[str, Any]:
    """Return the parameters that are not null; raise InvalidRequest for those without a meaning."""
    found = {name: value for name, value in _object(body, "").items() if value is not None}
    known |= {"model", interface.messages, "stream", "temperature", "metadata", "store", "hone"}
    wrong = [
        FieldError(pointer=pointer_to(name), detail=_no_meaning(name))
        for name, value in found.items()
        if name not in known and name not in IGNORED and value not in WITHOUT_EFFECT.get(name, ())
    ]
    if wrong:
        raise InvalidRequest.at(*wrong)
    return found


def _no_meaning(name: str) -> str:
    if name not in WITHOUT_EFFECT:
        return "is not supported by Hone: omit it"
    values = " or ".join(map(json.dumps, WITHOUT_EFFECT[name]))
    return f"is not supported by Hone: omit it, or send {values}"


def _model(model: Any) -> tuple[str, str | None]:
    if model is None:
        raise _wrong("/model", f"is missing: {MODEL}, or {MODEL}:NAME for a preset")
    name, separator, preset = model.partition(":") if isinstance(model, str) else ("", "", "")
    if name == MODEL and not separator:
        return MODEL, None
    if name != MODEL or not PRESET_NAME.fullmatch(preset):
        raise ModelNotFound(
            f"there is no model {str(model)[:100]!r}: {MODEL} is one, and a preset is {MODEL}:NAME"
        )
    return model, preset


def _messages(listed: Any, pointer: str) -> Iterator[Message]:
    if not isinstance(listed, list) or not listed:
        raise _wrong(pointer, "must be a list of at least one message")
    for index, given in enumerate(listed):
        at = f"{pointer}/{index}"
        message = _object(given, at)
        role = ROLES.get(str(message.get("role")))
        if message.get("tool_calls") or message.get("function_call"):
            raise _wrong(at, "calls of tools are not supported: send texts only")
        if message.get("type", "message") != "message" or role is None:
            roles = ", ".join(ROLES)
            raise _wrong(at, f"only messages are supported, and of these roles: {roles}")
        name = message.get("name")
        text = _text(message.get("content"), f"{at}/content")
        yield Message(role, text, name if isinstance(name, str) else None, at)


ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


def _text(content: Any, pointer: str) -> str:
    """Return the text of a content, which may be a list of parts."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise _wrong(pointer, "must be a text, or a list of parts")
    texts = []
    for index, given in enumerate(content):
        part = _object(given, f"{pointer}/{index}")
        kind = part.get("type")
        text = part.get(TEXTS.get(kind, "")) if isinstance(kind, str) else None
        if not isinstance(text, str):
            raise _wrong(f"{pointer}/{index}", f"only texts are supported; this is {kind!r}")
        texts.append(text)
    return "\n".join(texts)


def _conversation(messages: Sequence[Message], parameter: str) -> dict[str, Any]:
    """Return task, draft, instructions and context, as far as the messages have them.

    Instructions are one text, and the context one document.
    """
    instructions = [message.text for message in messages if message.role == "system"]
    said = [message for message in messages if message.role != "system" and message.text.strip()]
    draft = _draft(said)
    if draft is not None:
        said.remove(draft)
    asking = [message for message in said if message.role == "user"]
    task, text = _task(asking[-1].text if asking else "")
    before = said[: said.index(asking[-1])] if asking else said
    found = {
        "task": task,
        "draft": draft.text if draft is not None else text,
        "instructions": _joined(*(told for told in instructions if told.strip())),
    }
    if not found["task"] and not found["draft"]:
        raise _wrong(f"/{parameter}", "no message of a user has a text, and none is a draft")
    if before:
        spoken = "\n\n".join(f"{message.role}: {message.text}" for message in before)
        return _filled(found) | {"context": {"name": CONVERSATION, "text": spoken}}
    return _filled(found)


def _filled(found: Fields) -> dict[str, Any]:
    return {name: value for name, value in found.items() if value}


def _draft(said: Sequence[Message]) -> Message | None:
    """Return the assistant's message that is the draft: the last of all, or the one so named."""
    if said and said[-1].role == "assistant":
        return said[-1]
    marked = (message for message in reversed(said) if message.role == "assistant")
    return next((message for message in marked if message.name == DRAFT), None)


def _task(text: str) -> tuple[str, str]:
    """Return the task and the draft that a user has written into one message."""
    before, opening, rest = text.partition(TAGS[0])
    draft, closing, after = rest.rpartition(TAGS[1])
    if not (opening and closing and draft.strip()):
        return text, ""
    return _joined(before.strip(), after.strip()), draft.strip("\n")


def _format(format_: Fields, named: Any, interface: Interface) -> Iterator[dict[str, Any]]:
    """Yield the validator that a format of the answer becomes."""
    match format_.get("type", "text"):
        case "text":
            return
        case "json_object":
            yield {"kind": "json"}
        case "json_schema":
            schema = named.get("schema") if isinstance(named, dict) else None
            if not isinstance(schema, dict):
                raise _wrong(f"/{interface.format}", "a JSON Schema is required as `schema`")
            yield {"kind": "json_schema", "schema": schema}
        case other:
            raise _wrong(f"/{interface.format}", f"{other!r} is not supported")


def _length(given: Fields, interface: Interface) -> Iterator[dict[str, Any]]:
    """Yield the validator that the most tokens of the answer become."""
    for name in interface.limits:
        if (most := given.get(name)) is None:
            continue
        if type(most) is not int or most < 1:
            raise _wrong(f"/{name}", "must be a whole number above 0")
        yield {
            "kind": "length",
            "max_characters": min(CHARACTERS_PER_TOKEN * most, MOST_CHARACTERS),
        }
        return


def _object(given: Any, pointer: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise _wrong(pointer, "must be an object")
    return given


def _wrong(pointer: str, detail: str) -> InvalidRequest:
    return InvalidRequest.at(FieldError(pointer=pointer, detail=detail))
