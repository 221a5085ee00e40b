"""The port that every model implements, and the ways a call can fail.

ModelError
  ModelUnavailable  model_unavailable  unreachable, overloaded, timeout, failing after retries
  ModelRefused      model_refused      the server rejects this call (key, name, size, content)
  UnreadableReply   unreadable_reply   the reply is in no known format, too large, truncated, empty
ModelWaits          (no error: the same call is to be made again later)
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from app.contract.events import WaitReason
from app.contract.judgement import Usage
from workers.engine.prompt_requests import Prompt, PromptRequest


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
    """The server's reply is not in its own format, too large, truncated, or empty."""

    code = "unreadable_reply"


class ModelWaits(Exception):
    """The model takes no call now: nothing is wrong with the call, which is to be made again later.

    `wait_s` is when a permit is expected. `is_open` is whether the breaker is open. `usage` is what
    requests already made have consumed.
    """

    def __init__(
        self,
        model: str,
        reason: WaitReason,
        wait_s: float,
        detail: str,
        *,
        is_open: bool = False,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(detail)
        self.model = model
        self.reason = reason
        self.wait_s = wait_s
        self.detail = detail
        self.is_open = is_open
        self.usage = usage or Usage()


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call to one model. `key` is the same whenever the same step is repeated.

    `progress` is how many steps of its refinement are recorded: within a tenant those furthest
    along go first. With `has_permit` the call needs no other permit. `tries` is how often this call
    has failed already.
    """

    model: str
    prompt: Prompt
    prompt_request: PromptRequest
    key: str
    temperature: float | None = None
    max_output_tokens: int = 4_096
    tenant: str = "default"
    progress: int = 0
    has_permit: bool = False
    tries: int = 0


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
