"""The port that every model implements, the ways a call can fail, and what callers use.

ModelError            final: this call can never work
  ModelRefused        model_refused      the server rejects this call for any other reason
    UnknownModel      unknown_model      the server has no model of that name, or not for this key
    PromptTooLong     prompt_too_long    more text than the model or the server accepts
    ContentFiltered   content_filtered   the provider's content filter withholds the reply
  ReplyRefused        reply_refused      the server marks the reply as a refusal by the model
  UnreadableReply     unreadable_reply   in no known format, or too large
    ReplyCutOff       reply_cut_off      cut off by the limit on its length
    EmptyReply        unreadable_reply   without a text
    BrokenReply       unreadable_reply   with a bad ending, or not in the form of the call

NotServed             what one model found: this call was not served now, but may be later
ModelWaits            the same, with the time of the next try; this is what callers see
"""

from collections.abc import Callable
from typing import Any, ClassVar, Literal, Protocol, Self

from app.contract.judgement import Usage
from app.contract.models import ReasoningEffort, Role
from app.contract.values import value
from app.contract.waiting import WaitReason
from workers.engine.prompts import Prompt, PromptRequest
from workers.engine.replies.reader import CUT_OFF, DECLINED


class ModelError(Exception):
    """A model call failed for good; `usage` is what it consumed nevertheless."""

    code: ClassVar[str] = "model_unavailable"

    def __init__(self, detail: str, usage: Usage | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.usage = usage or Usage()


class ModelRefused(ModelError):
    """The server rejects this call; a retry would not help."""

    code = "model_refused"


class UnknownModel(ModelRefused):
    """The server has no model of that name, or not for this key."""

    code = "unknown_model"


class PromptTooLong(ModelRefused):
    """The prompt, or the prompt with the reply, has more tokens or bytes than are accepted."""

    code = "prompt_too_long"


class ContentFiltered(ModelRefused):
    """A content filter of the provider refuses prompt or reply."""

    code = "content_filtered"


class ReplyRefused(ModelError):
    """The model refuses to do what it is asked, and its server marks the reply as a refusal."""

    code = DECLINED


class UnreadableReply(ModelError):
    """The server's reply is not in its own format, too large, or empty."""

    code = "unreadable_reply"


class ReplyCutOff(UnreadableReply):
    """The reply was cut off by the limit on its length; `text` is its beginning."""

    code = CUT_OFF

    def __init__(self, detail: str, text: str, usage: Usage | None = None) -> None:
        super().__init__(detail, usage)
        self.text = text


class EmptyReply(UnreadableReply):
    """The reply has no text."""


class BrokenReply(UnreadableReply):
    """The model stopped before its reply was whole, or missed the form that its server enforces."""


LimitOf = Literal["requests", "tokens", "input_tokens", "output_tokens"]
"""What a provider limits: calls, or the tokens of prompts, of replies, or of both together."""


@value(slots=True)
class ReportedLimit:
    """What a server says of one limit; `reset_s`: seconds until the whole limit is free again."""

    of: LimitOf
    limit: float
    remaining: float
    reset_s: float


class NotServed(Exception):
    """A model did not serve a call now. `retry_after_s` is what the server asked to wait."""

    def __init__(
        self,
        reason: WaitReason,
        detail: str,
        *,
        retry_after_s: float | None = None,
        usage: Usage | None = None,
        limits: tuple[ReportedLimit, ...] = (),
        is_outage: bool = True,
    ) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.retry_after_s = retry_after_s
        self.usage = usage or Usage()
        self.limits = limits
        self.is_outage = is_outage
        """Whether it says something about the server, and not only about this reply."""


class ModelWaits(Exception):
    """The model takes no call now: nothing is wrong with the call, which is to be made again later.

    `awaited` is a model, an endpoint or a quota, as in `Waiting`. `wait_s` is when a permit is
    expected. `is_open` is whether the breaker is open. `usage` is what requests already made have
    consumed.
    """

    def __init__(
        self,
        awaited: str,
        reason: WaitReason,
        wait_s: float,
        detail: str,
        *,
        is_open: bool = False,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(detail)
        self.awaited = awaited
        self.reason = reason
        self.wait_s = wait_s
        self.detail = detail
        self.is_open = is_open
        self.usage = usage or Usage()


class TextFollower(Protocol):
    """Follows a text while a model writes it."""

    @property
    def is_watched(self) -> bool:
        """Whether somebody watches now, so that the reply should be streamed."""

    def follow(self, text: Callable[[], str]) -> None:
        """Follow what `text` returns, in place of what was followed before: a try begins."""


@value()
class ModelCall:
    """One call to one model. `key` is the same whenever the same step is repeated.

    `tries`: how often it has failed already. `progress`: the steps that its refinement has
    recorded; within a tenant those furthest along go first, and tenants take turns. `has_permit`:
    the refinement was claimed with a permit for this model.
    """

    model: str
    prompt: Prompt
    prompt_request: PromptRequest
    key: str
    temperature: float | None = None
    max_output_tokens: int = 4_096
    reasoning_effort: ReasoningEffort | None = None
    tenant: str = "default"
    progress: int = 0
    has_permit: bool = False
    tries: int = 0
    expected_output_tokens: int = 0
    is_streamed: bool = False
    follower: TextFollower | None = None
    role: Role = "generator"

    def changed(self, **fields: Any) -> Self:
        """Return the same call with other values in these fields; `replace` takes far longer."""
        call = object.__new__(type(self))
        call.__dict__.update(self.__dict__ | fields)
        return call


@value(slots=True)
class ModelReply:
    """The reply of a model; `usage.calls` counts the requests made for it that were served.

    `model` is `provider:name` with the name that the server returned; `limits` are what the server
    reports of its limits, and `finish_reason` is why the model stopped, in the server's words.
    """

    text: str
    model: str
    usage: Usage
    limits: tuple[ReportedLimit, ...] = ()
    finish_reason: str | None = None


class Model(Protocol):
    """Answers calls. Raises `ModelError` and `NotServed`.

    A cancelled call closes its connection at once.
    """

    async def complete(self, call: ModelCall) -> ModelReply: ...


class ModelCaller(Protocol):
    """Calls models by name, `provider:name`, within what their servers allow."""

    async def complete(self, name: str, call: ModelCall) -> ModelReply:
        """Return the reply of a model. Raises `ModelError`, which is final, and `ModelWaits`."""

    async def permits(self, name: str, most: int) -> int:
        """Take up to `most` permits for refinements that wait for a model; return how many."""
