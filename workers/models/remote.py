"""A model behind a wire format: sends requests without what the server rejects, counts usage."""

import asyncio
import json
import re
from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from hashlib import sha256
from math import inf
from time import perf_counter
from typing import Annotated, Any, Protocol

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import core_schema

from app.contract.budget import tokens_in
from app.contract.judgement import Usage
from app.contract.models import EFFORTS, ReasoningEffort
from app.contract.plugins import playing_module
from app.contract.providers import TokenCount, capacity_of, price_of
from app.contract.values import value
from workers.engine.prompts import Prompt
from workers.engine.strict_schema import unbounded
from workers.models.port import (
    BrokenReply,
    ContentFiltered,
    EmptyReply,
    ModelCall,
    ModelError,
    ModelRefused,
    ModelReply,
    NotServed,
    ReplyCutOff,
    UnreadableReply,
)
from workers.models.responses import (
    ResponseInParts,
    StreamParts,
    failure_in,
    failure_of,
    is_bad_generation,
    reported_limits,
    well_formed,
)
from workers.outbound.transport import (
    Request,
    RequestAttempts,
    RequestRefused,
    RequestUnanswered,
    StatusRejected,
    Transport,
    TransportError,
    UntrustedServer,
    UnusableKey,
    UnusableResponse,
)

NAMES_OF_JSON = (
    *("response_format", "json_schema", "json_object", "json mode", "json_mode"),
    *("output_config", "output_format", "schema", "structured", "grammar"),
)
"""Lower-case words in the errors of servers that do not support a way to request JSON."""


def names_json(said: str) -> bool:
    """Return whether an error is about the format of the reply."""
    return any(name in said.lower() for name in NAMES_OF_JSON)


def user_text(prompt: Prompt, *, in_words: bool) -> str:
    """Return the user message; with `in_words` the JSON Schema of the reply stands at its end.

    There it leaves the start alone, which all calls share, and its names, which clients choose, are
    not in the system message.
    """
    if not in_words or prompt.schema is None:
        return prompt.user
    schema = json.dumps(prompt.schema, ensure_ascii=False)
    return (
        f"{prompt.user}\n\nAnswer with one JSON object that satisfies this JSON Schema, "
        f"and with nothing else:\n{schema}"
    )


def counted(
    asked: int | None, said: int | None, *, cached: int = 0, written: int = 0, thinking: int = 0
) -> TokenCount | None:
    """Return the tokens of a call; None if the prompt's or the reply's tokens are not known.

    A server that counts 0 for a prompt does not count. `cached` and `written` (to the cache) are
    parts of `asked`, `thinking` is one of `said`.
    """
    if not asked or said is None:
        return None
    read = min(cached, asked)
    return TokenCount(asked, said, read, min(written, asked - read), min(thinking, said))


class NoneIfInvalid:
    """Marks a part of a reply that may be anything: None unless it is what is declared."""

    @staticmethod
    def __get_pydantic_core_schema__(
        source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Let pydantic take None instead of an error."""
        declared = handler(source)
        return core_schema.with_default_schema(declared, default=None, on_error="default")


CUT_OFF = re.compile(r"length|max\w*tokens|maxoutput|tokenlimit|contextwindow|truncat")
WITHHELD = re.compile(
    r"filter|safety|sensitive|guardrail|refusal|recitation|block|prohibited|policy|spii|moderat|toxic"
)
"""What the names of endings have in common, their letters in lower case: providers invent some."""


def flaw_of(text: str, ending: str | None, good: Collection[str]) -> ModelError | None:
    """Return why a reply must not be used, or None.

    Only an ending in `good` is a good one; without any, its wire format says whether it is.
    """
    name = ending or ""
    if name not in good:
        name = re.sub(r"[\W\d_]+", "", name.lower()) or name.strip()
    if name in good:
        return None if text.strip() else EmptyReply("the reply is empty")
    if WITHHELD.search(name):
        return ContentFiltered("the model or its provider's content filter refused to answer")
    if CUT_OFF.search(name):
        return ReplyCutOff("the reply is cut off: `max_output_tokens` is too small for it", text)
    said = f"its server says {(ending or '')[:80]!r}" if ending else "its server does not say why"
    return BrokenReply(f"the reply ended before it was whole: {said}")


MOST_TOKENS = 100_000_000
"""Tokens of one call; a server that counts more is not believed."""

Count = Annotated[int | None, Field(strict=True, ge=0, le=MOST_TOKENS), NoneIfInvalid]
"""A number of tokens as a server gave it; None if it cannot be one."""

Unwanted = frozenset[str]
"""What a server has rejected for a model: names that only its wire format defines."""


BOUNDED = "bounds"
"""Bounds on numbers and lists in the schema of a document, which not every server accepts."""
NAMES_OF_BOUNDS = re.compile(r"minimum|maximum|exclusive|min_?items|max_?items|\bbounds?\b")


def format_schema(call: ModelCall, unwanted: Unwanted, *, takes_bounds: bool) -> Any:
    """Return the schema to send as the format of a reply; a document's may be without bounds."""
    schema = call.prompt.schema
    if schema is None or not call.prompt.is_document or (takes_bounds and BOUNDED not in unwanted):
        return schema
    return unbounded(schema)


def refused_bounds(said: str, call: ModelCall, unwanted: Unwanted) -> str | None:
    """Return `BOUNDED` if an error is about bounds in a schema that was sent with them."""
    sent = format_schema(call, unwanted, takes_bounds=True)
    if sent is None or not call.prompt.is_document or sent == unbounded(sent):
        return None
    return BOUNDED if NAMES_OF_BOUNDS.search(said.lower()) else None


NAMES_OF_EFFORT = ("reasoning_effort", "reasoning effort", "effort", "thinking", "reasoning")
"""Lower-case words in the errors of servers that do not support a way to make a model think."""


def effort_of(call: ModelCall, unwanted: Unwanted) -> ReasoningEffort | None:
    """Return the level that a call asks for, or the nearest that was not rejected, higher first."""
    asked = call.reasoning_effort
    if asked is None or EFFORT in unwanted:
        return None
    at = EFFORTS.index(asked)
    nearest = (*EFFORTS[at:], *reversed(EFFORTS[:at]))
    return next((effort for effort in nearest if f"{EFFORT}={effort}" not in unwanted), None)


def refused_effort(said: str, call: ModelCall, unwanted: Unwanted) -> str | None:
    """Return what an error rejects: the level that was sent, or levels altogether."""
    effort = effort_of(call, unwanted)
    if effort is None or not any(name in said.lower() for name in NAMES_OF_EFFORT):
        return None
    return f"{EFFORT}={effort}" if LEVEL.search(said.lower()) else EFFORT


EFFORT = "reasoning_effort"
LEVEL = re.compile(rf"""(?:['"`]|level |: )(?:{"|".join(EFFORTS)})\b""")
"""A level in an error: then not all of them are rejected."""

NAMES_OF_LIMIT = re.compile(r"max_(?:completion_|output_)?tokens|maxoutputtokens|maximum tokens")
CONTEXT = re.compile(r"(?:maximum context length is|exceed context limit: \d+ \+ \d+ >) (\d+)")
INPUT = re.compile(
    r"(\d+) (?:in the messages|in your prompt|of text input)|has (\d+) input tokens|limit: (\d+) \+"
)
BOUND = re.compile(r"(?<![\w-])(?<!\d\.)(\d+)(?![\w-]|\.\d)(?: \((exclusive)\))?")


def allowed_output(said: str, asked: int) -> int | None:
    """Return the most output tokens that a server allows, from its error; None if it says none.

    Either the model's maximum, or what a known input leaves of the context window.
    """
    said = said.lower()
    window, given = CONTEXT.search(said), INPUT.search(said)
    if window:
        left = int(window[1]) - int(next(filter(None, given.groups()))) if given else 0
        return left if 0 < left < asked else None
    if not NAMES_OF_LIMIT.search(said):
        return None
    bounds = [int(bound[1]) - bool(bound[2]) for bound in BOUND.finditer(said)]
    return max((bound for bound in bounds if FEWEST_OUTPUT <= bound < asked), default=None)


FEWEST_OUTPUT = 512
"""Smaller numbers in an error, such as its status, are no maximum of output tokens."""


@value(slots=True)
class ChatReply:
    """The reply of a model; `tokens` is None when the server did not count them.

    `finish_reason` is why the model stopped, in the words of its server. A reply with a `flaw` must
    not be used, although it was paid for.
    """

    text: str
    model: str | None
    tokens: TokenCount | None
    flaw: ModelError | None = None
    finish_reason: str | None = None


class WireFormat(Protocol):
    """One wire format, for one server and key."""

    def request(self, call: ModelCall, unwanted: Unwanted) -> Request:
        """Return the request, without what the server has rejected for this model."""

    def refused(self, said: str, call: ModelCall, unwanted: Unwanted) -> str | None:
        """Return the part of the request that an error names, if the request works without it."""

    def read(self, body: bytes) -> ChatReply:
        """Parse a response. Raises `UnreadableReply` when it is not in this format."""

    def parts(self) -> StreamParts:
        """Return what merges the events of a streamed response into a body for `read`."""


AdapterFactory = Callable[[str, str], WireFormat]
"""Returns the adapter for a base URL and an API key, which is empty where none is needed."""


@cache
def adapter_of(wire: str) -> AdapterFactory:
    """Return the `ADAPTER` of the module in this package that is named after the wire format."""
    adapter: AdapterFactory = playing_module("workers.models", "models", wire).ADAPTER
    return adapter


STREAM = "stream"
STREAM_OPTIONS = "stream_options"
NAMES_STREAM = re.compile(r"\bstream(ing|ed)?\b")
"""Matches the parameter or the word in an error, and no `upstream`."""

TOKENS_PER_S = 128_000 / 3_600
"""How fast a model writes at least, as Anthropic's clients assume before they insist on streams."""


def unwanted_stream(said: str, call: ModelCall, unwanted: Unwanted) -> str | None:
    """Return the part of streaming that an error names, if it was sent."""
    if not call.is_streamed or STREAM in unwanted:
        return None
    if STREAM_OPTIONS in said or "include_usage" in said:
        return None if STREAM_OPTIONS in unwanted else STREAM_OPTIONS
    return STREAM if NAMES_STREAM.search(said) else None


NAMES_A_PART = frozenset({400, 422})
"""Statuses with which servers reject a part of a request that they do not support."""

MOST_DOCUMENTS = 1_000
"""Schemas of documents for which it is remembered what a server rejects with them."""

MOST_UNREADABLE = 2
"""How often a call is made again whose reply was none of this wire format, empty, or broken."""


MOST_BROKEN = 2
"""How many streams of a model may break off, one after the other, before its replies come whole."""
UNSTREAMED_S = 60.0


class _Experience:
    """What a server has shown of one of its models."""

    unwanted: Unwanted = frozenset()
    most_output: int | None = None
    is_slow = False
    broken_streams = 0
    unstreamed_until = 0.0


NO_EXPERIENCE = _Experience()


READ_AGAIN_S = 10.0
"""How long a worker uses what it has read of the rejections of servers."""
MOST_OUTPUT = "most_output="


class SharedRejections(Protocol):
    """What all workers know that a server rejects, by model, or by model and schema."""

    async def read(self, name: str) -> frozenset[str] | None:
        """Return what was rejected; None while that is not known."""

    async def add(self, name: str, rejected: Collection[str]) -> None:
        """Remember what was rejected."""


class Remote:
    """Every model of one provider.

    What a server rejects (a format, a parameter) is left out of the next request and, once that
    has worked, of every later request for the same model, by other workers too if it is `shared`;
    likewise a limit of the output that it calls too high is lowered to what it allows. A format
    rejected with the schema of a document says nothing about other schemas, and is left out for
    that one alone. If the server does not count a reply's tokens they are estimated, and the cost
    is unknown. A reply is streamed if somebody watches, if it may take longer than a call may, or
    if one of the model's whole replies did. Streams that break off, one after the other, are not
    asked for again for a while, unless a whole reply timed out.
    """

    def __init__(
        self,
        provider: str,
        dialect: WireFormat,
        transport: Transport,
        shared: SharedRejections | None = None,
    ) -> None:
        self._provider = provider
        self._dialect = dialect
        self._transport = transport
        self._shared = shared
        self._read_at: dict[str, float] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._experiences: dict[str, _Experience] = {}
        self._unwanted_with: dict[str, Unwanted] = {}

    async def complete(self, call: ModelCall) -> ModelReply:
        """Answer a call; the `usage` of the reply or error counts the requests made for it.

        Calls that the server refused do not count.
        """
        started = perf_counter()
        if self._shared is not None:
            await self._recall(call, started)
        known = self._experiences.get(call.model, NO_EXPERIENCE)
        if self._is_streamed(call, known):
            call = call.changed(is_streamed=True)
        step = self._transport.step(call.key)
        said: ChatReply | None = None
        received: list[ResponseInParts] = []
        try:
            said = self._read(*await self._ask(call, step, received, known))
            if said.flaw:
                raise said.flaw
        except (ModelError, NotServed, TransportError) as failure:
            if call.is_streamed and not step.has_timed_out and _is_break(failure):
                self._count_break(call.model, started)
            error = _meaning(failure, call, is_read=said is not None)
            error.usage = self._usage(call, step, said, perf_counter() - started)
            if said is None and not isinstance(failure, NotServed):
                has_begun = step.has_begun and _is_break(failure)
                error.usage += _lost(call, received, has_begun=has_begun)
            if step.has_timed_out:
                self._experience(call.model).is_slow = True
            raise error from None
        if call.is_streamed and call.model in self._experiences:
            self._experiences[call.model].broken_streams = 0
        usage = self._usage(call, step, said, perf_counter() - started)
        answered = f"{self._provider}:{said.model or call.model}"
        limits = reported_limits(step.fields)
        return ModelReply(said.text, answered, usage, limits, said.finish_reason)

    def _read(self, body: bytes, request: Request) -> ChatReply:
        """Parse a response; one that is no reply may be a failure of the server with status 200."""
        said: ChatReply | None
        try:
            said = self._dialect.read(body)
            if not isinstance(said.flaw, EmptyReply | BrokenReply):
                return said
        except UnreadableReply:
            said = None
        shown = body.replace(request.secret.encode(), b"***") if request.secret else body
        if failure := failure_in(shown, request.host):
            raise failure
        return said or self._dialect.read(body)

    async def _ask(
        self,
        call: ModelCall,
        step: RequestAttempts,
        received: list[ResponseInParts],
        known: _Experience,
    ) -> tuple[bytes, Request]:
        rejected = known.unwanted
        if call.prompt.is_document:
            rejected |= self._unwanted_with.get(_document_key(call), frozenset())
        unwanted = rejected
        of_document: Unwanted = frozenset()
        limits: Unwanted = frozenset()
        call, lowered = self._within_capacity(call, known), ""
        while True:
            request = self._dialect.request(call, unwanted)
            variant = f";without={'+'.join(sorted(unwanted))}" if unwanted else ""
            is_whole = not call.is_streamed or STREAM in unwanted
            open_reader = None if is_whole else partial(self._reader, call, received)
            try:
                body = await step.post(request, variant + lowered, open_reader)
            except StatusRejected as refusal:
                said = refusal.response.said
                if refusal.response.status not in NAMES_A_PART or is_bad_generation(said):
                    raise
                if most := allowed_output(said, call.max_output_tokens):
                    call, lowered = self._lowered(call, most, said), f";output={most}"
                    if self._experience(call.model).most_output == most:
                        limits = frozenset({f"{MOST_OUTPUT}{most}"})
                    continue
                part = self._dialect.refused(said, call, unwanted)
                if part is None:
                    raise
                unwanted |= {part}
                if call.prompt.is_document and names_json(said):
                    of_document |= {part}
                continue
            if unwanted is not rejected:
                self._remember(call, unwanted - rejected, of_document)
            if self._shared is not None and (general := unwanted - rejected - of_document | limits):
                await self._shared.add(self._name(call), general)
            if self._shared is not None and of_document:
                await self._shared.add(self._name(call, of_document=True), of_document)
            return well_formed(body) if is_whole else body, request

    def _name(self, call: ModelCall, *, of_document: bool = False) -> str:
        """Return under which name workers share what is rejected."""
        return f"{self._provider}:{_document_key(call) if of_document else call.model}"

    async def _recall(self, call: ModelCall, now: float) -> None:
        """Learn what others were told, at most every `READ_AGAIN_S` seconds."""
        names = [self._name(call)]
        if call.prompt.is_document:
            names.append(self._name(call, of_document=True))
        for name in names:
            if now - self._read_at.get(name, -inf) >= READ_AGAIN_S:
                if (reading := self._reading.get(name)) is None:
                    reading = asyncio.create_task(self._read_shared(name))
                    self._reading[name] = reading
                await asyncio.shield(reading)

    async def _read_shared(self, name: str) -> None:
        """Replace what is known for a name; a name is forgotten after a day without news."""
        assert self._shared is not None
        found = await self._shared.read(name)
        del self._reading[name]
        if len(self._read_at) > 2 * MOST_DOCUMENTS:
            self._read_at.clear()
        self._read_at[name] = perf_counter()
        if found is None:
            return
        key = name.partition(":")[2]
        limits = {rejection for rejection in found if rejection.startswith(MOST_OUTPUT)}
        if " " in key:
            self._unwanted_with.pop(key, None)
            self._unwanted_with |= {key: found} if found else {}
        elif found or key in self._experiences:
            known = self._experience(key)
            known.unwanted = found - limits
            known.most_output = min(
                (int(rejection.removeprefix(MOST_OUTPUT)) for rejection in limits), default=None
            )

    def _experience(self, model: str) -> _Experience:
        """Return what to write down what a server shows of a model."""
        return self._experiences.setdefault(model, _Experience())

    def _remember(self, call: ModelCall, unwanted: Unwanted, of_document: Unwanted) -> None:
        """Leave out of later requests what was rejected; `of_document` only with this schema."""
        if general := unwanted - of_document:
            self._experience(call.model).unwanted |= general
        if of_document:
            key = _document_key(call)
            known = self._unwanted_with.pop(key, frozenset())
            self._unwanted_with[key] = known | of_document
            if len(self._unwanted_with) > MOST_DOCUMENTS:
                del self._unwanted_with[next(iter(self._unwanted_with))]

    def _within_capacity(self, call: ModelCall, known: _Experience) -> ModelCall:
        """Return the call with the limit that its model can keep, as far as that is known."""
        most = known.most_output or call.max_output_tokens
        if capacity := capacity_of(f"{self._provider}:{call.model}"):
            asked = tokens_in(call.prompt.system) + tokens_in(call.prompt.user)
            left = capacity.context_tokens - asked
            most = min(most, capacity.max_output_tokens, left if left > 0 else most)
        return call if most >= call.max_output_tokens else call.changed(max_output_tokens=most)

    def _lowered(self, call: ModelCall, most: int, said: str) -> ModelCall:
        """Return the call with a lower limit; a maximum of the model holds for later calls too."""
        if not CONTEXT.search(said.lower()):
            self._experience(call.model).most_output = most
        return call.changed(max_output_tokens=most)

    def _is_streamed(self, call: ModelCall, known: _Experience) -> bool:
        if known.is_slow:
            return True
        if known.unstreamed_until and known.unstreamed_until > perf_counter():
            return False
        in_time = self._transport.retry_policy.total_s * TOKENS_PER_S
        is_watched = call.follower is not None and call.follower.is_watched
        return is_watched or 2 * call.expected_output_tokens > in_time

    def _count_break(self, model: str, now: float) -> None:
        """Count a stream that broke off; streaming must not fail a call that succeeds whole."""
        known = self._experience(model)
        known.broken_streams += 1
        if known.broken_streams >= MOST_BROKEN:
            known.unstreamed_until = now + UNSTREAMED_S

    def _reader(self, call: ModelCall, received: list[ResponseInParts]) -> ResponseInParts:
        """Return the reader of one try; watchers of the text begin anew."""
        reader = ResponseInParts(self._dialect.parts)
        received.append(reader)
        if call.follower is not None:
            call.follower.follow(reader.text)
        return reader

    def _usage(
        self, call: ModelCall, step: RequestAttempts, said: ChatReply | None, seconds: float
    ) -> Usage:
        if said is None:
            cost = None if step.may_have_cost else 0.0
            return Usage(calls=step.calls, cost_usd=cost, seconds=seconds)
        price = price_of(f"{self._provider}:{call.model}")
        cost = price.cost_usd(said.tokens) if price and said.tokens else None
        tokens = said.tokens or _estimated(call, said)
        return Usage(
            calls=step.calls,
            input_tokens=tokens.input,
            output_tokens=tokens.output,
            cached_tokens=tokens.cached,
            thinking_tokens=tokens.thinking,
            cost_usd=None if cost is None else round(cost, 9),  # like every total
            seconds=seconds,
        )


def _estimated(call: ModelCall, said: ChatReply) -> TokenCount:
    """Return about how many tokens a call took that its server did not count."""
    return TokenCount(tokens_in(call.prompt.system + call.prompt.user), tokens_in(said.text))


def _lost(call: ModelCall, received: Sequence[ResponseInParts], *, has_begun: bool) -> Usage:
    """Return what a reply consumed that broke off or was none, as far as it is known."""
    streams = [stream for stream in received if stream.is_stream]
    has_come = any(stream.has_events for stream in streams) if streams else has_begun
    asked = tokens_in(call.prompt.system + call.prompt.user)
    written = sum(tokens_in(stream.text()) for stream in streams)
    return Usage(input_tokens=asked if has_come else 0, output_tokens=written)


def _document_key(call: ModelCall) -> str:
    """Return the model and the schema of a call for a document."""
    schema = json.dumps(call.prompt.schema, sort_keys=True)
    return f"{call.model} {sha256(schema.encode()).hexdigest()}"


def _is_break(failure: ModelError | NotServed | TransportError) -> bool:
    """Return whether a stream was unreadable or ended early, without an error from the server."""
    if isinstance(failure, RequestUnanswered):
        return failure.response is None or not failure.response.said
    return isinstance(failure, UnusableResponse | UnreadableReply)


def _meaning(
    failure: ModelError | NotServed | TransportError, call: ModelCall, *, is_read: bool
) -> ModelError | NotServed:
    """Return the error of a call; `is_read`: the reply was one of this wire format."""
    match failure:
        case NotServed():
            return failure
        case RequestUnanswered(response=None) | UntrustedServer() | UnusableKey():
            is_key = isinstance(failure, UnusableKey)
            return NotServed("unauthorized" if is_key else "unreachable", failure.detail)
        case RequestUnanswered(response=response) | StatusRejected(response=response):
            assert response is not None
            found = failure_of(response, failure.detail)
            if not isinstance(found, BrokenReply):
                return found
            error: ModelError = found
        case RequestRefused():
            return ModelRefused(failure.detail)
        case UnusableResponse():
            error = UnreadableReply(failure.detail)
        case ModelError():
            error = failure
        case _:
            raise failure
    may_help = isinstance(error, EmptyReply | BrokenReply) or not is_read
    if may_help and call.tries < MOST_UNREADABLE:
        return NotServed("error", error.detail, is_outage=False)
    return error
