"""The port through which every model is reached, and the ways a call can fail.

ModelError
  ModelUnavailable  model_unavailable  unreachable, overloaded, timed out, failing after retries
  ModelRefused      model_refused      the server refuses this call (key, name, size, content)
  UnreadableReply   unreadable_reply   the answer is in no known format, too large, cut off, empty
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from app.contract.judgement import Usage
from workers.engine.prompt_requests import Prompt, PromptRequest


class ModelError(Exception):
    """A model call that will not succeed by itself; `usage` is what it consumed all the same."""

    code: ClassVar[str] = "model_unavailable"

    def __init__(self, detail: str, usage: Usage | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.usage = usage or Usage()


class ModelUnavailable(ModelError):
    """Unreachable, overloaded, timed out, or still failing after every retry."""


class ModelRefused(ModelError):
    """The server refuses this call; sending it again would not help."""

    code = "model_refused"


class UnreadableReply(ModelError):
    """The server's answer is not in its own format, too large, cut off, or empty."""

    code = "unreadable_reply"


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One question to one model. `key` is the same whenever the same step is asked again."""

    model: str
    prompt: Prompt
    prompt_request: PromptRequest
    key: str
    temperature: float | None = None
    max_output_tokens: int = 4_096


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What a model answered; `usage.calls` counts retries.

    `model` is `provider:name` with the name that the server gave.
    """

    text: str
    model: str
    usage: Usage


class Model(Protocol):
    """Answers calls. Raises `ModelError`; a cancelled call drops its connection at once."""

    async def complete(self, call: ModelCall) -> ModelReply: ...
