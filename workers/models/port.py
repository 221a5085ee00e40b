"""The port that every model implements, and the ways a call can fail.

ModelError
  ModelUnavailable  model_unavailable  unreachable, overloaded, timeout, failing after retries
  ModelRefused      model_refused      the server rejects this call (key, name, size, content)
  UnreadableReply   unreadable_reply   the reply is in no known format, too large, empty
    ReplyCutOff     reply_cut_off      the reply is cut off by the limit on its length
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from app.contract.judgement import Usage
from workers.engine.prompt_requests import Prompt, PromptRequest
from workers.engine.replies import CUT_OFF


class ModelError(Exception):
    """A model call failed, retries included; `usage` is what it consumed nevertheless."""

    code: ClassVar[str] = "model_unavailable"

    def __init__(self, detail: str, usage: Usage | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.usage = usage or Usage()


class ModelUnavailable(ModelError):
    """The server is unreachable or overloaded, times out, or still fails after every retry."""


class ModelRefused(ModelError):
    """The server rejects this call; a retry would not help."""

    code = "model_refused"


class UnreadableReply(ModelError):
    """The server's reply is not in its own format, too large, or empty."""

    code = "unreadable_reply"


class ReplyCutOff(UnreadableReply):
    """The reply was cut off by the limit on its length; `text` is what there is of it."""

    code = CUT_OFF

    def __init__(self, detail: str, text: str, usage: Usage | None = None) -> None:
        super().__init__(detail, usage)
        self.text = text


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call to one model. `key` is the same whenever the same step is repeated."""

    model: str
    prompt: Prompt
    prompt_request: PromptRequest
    key: str
    temperature: float | None = None
    max_output_tokens: int = 4_096


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The reply of a model; `usage.calls` includes retries.

    `model` is `provider:name` with the name that the server returned.
    """

    text: str
    model: str
    usage: Usage


class Model(Protocol):
    """Answers calls. Raises `ModelError`; a cancelled call closes its connection at once."""

    async def complete(self, call: ModelCall) -> ModelReply: ...
