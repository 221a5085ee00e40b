"""Plain's wire format: a prompt in, a text out. JSON is requested in the prompt only."""

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from workers.models.port import ModelCall, UnreadableReply
from workers.models.remote import (
    AdapterFactory,
    ChatReply,
    Count,
    Unwanted,
    counted,
    flaw_of,
    user_text,
)
from workers.outbound.transport import Request


class _Usage(BaseModel):
    input: Count = None
    output: Count = None


class _Generated(BaseModel):
    text: str
    is_cut_off: bool = False
    usage: _Usage = _Usage()


class Plain:
    """The wire format, for one base URL and key."""

    def __init__(self, base_url: str, api_key: str = "") -> None:
        self._url = f"{base_url.rstrip('/')}/generate"
        self._key = api_key
        self._headers = {"X-Key": api_key} if api_key else {}

    def request(self, call: ModelCall, unwanted: Unwanted) -> Request:
        """Ask for one text."""
        body: dict[str, object] = {
            "model": call.model,
            "system": call.prompt.system,
            "prompt": user_text(call.prompt, in_words=True),
            "max_tokens": call.max_output_tokens,
        }
        if call.temperature is not None and "temperature" not in unwanted:
            body["temperature"] = call.temperature
        return Request(self._url, self._headers, to_json(body), self._key)

    def refused(self, said: str, call: ModelCall, unwanted: Unwanted) -> str | None:
        """Return the parameter that a refusal names, if it was sent and can be left out."""
        is_sent = call.temperature is not None and "temperature" not in unwanted
        return "temperature" if is_sent and "temperature" in said else None

    def read(self, body: bytes) -> ChatReply:
        """Read a reply; a text that is cut off has a flaw."""
        try:
            generated = _Generated.model_validate_json(body)
        except ValidationError:
            raise UnreadableReply("the reply is not a generated text") from None
        tokens = counted(generated.usage.input, generated.usage.output)
        ending = "length" if generated.is_cut_off else "stop"
        flaw = flaw_of(generated.text, ending, {"stop"})
        return ChatReply(generated.text, None, tokens, flaw)


ADAPTER: AdapterFactory = Plain
