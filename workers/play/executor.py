"""Performs steps: model calls, checks of a draft, and tool calls. Each has a span.

Spans follow OpenTelemetry's conventions for generative AI (semantic conventions 1.4x). One span is
one step: the call of a model with its waits, refusals and fallbacks as events, a check of a draft,
or the call of a tool. A step that is replayed has none. Texts are added only if the process is
asked for them, and the request lets them be stored.

The texts that models are writing are published while clients watch them. Without watchers nothing
is sent and no timer runs. Ten times a second at most, one text of a refinement that has grown is
published; several side by side take turns. The reader of replies says what is certain of each.
"""

import asyncio
import json
import logging
from codecs import getincrementaldecoder
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, Literal, Protocol, Self

from app.contract.budget import DEFAULT_MAX_OUTPUT_TOKENS
from app.contract.editor import EDITOR
from app.contract.events import (
    AnyReply,
    PromptRef,
    StepCompleted,
    StepFailed,
    TextReply,
    ToolReply,
    Tried,
)
from app.contract.judgement import Finding, FindingsReply, Usage
from app.contract.models import ModelChoice, seat_at
from app.contract.status import Caveat
from app.contract.tools import MAX_RESULT, Tool
from app.contract.validators.json import JsonSchemaValidator
from app.contract.values import value
from app.contract.waiting import in_words, own_key_name
from app.telemetry import TraceSpan, current_span
from app.telemetry.metrics import count_call
from app.telemetry.traces import Attribute, Attributes
from workers.engine.asking import reply_reader
from workers.engine.moves import Ask, Call, Check, StepMove, ToolResult, about
from workers.engine.replies.reader import Unreadable
from workers.models.port import (
    ModelCall,
    ModelCaller,
    ModelError,
    ModelRefused,
    ModelReply,
    ModelWaits,
    TextFollower,
)
from workers.outbound.guarded_client import (
    MAX_REPLY,
    EndpointClient,
    EndpointUnavailable,
    EndpointWaits,
)
from workers.play.journal import UNKNOWN
from workers.play.limits import RefinementCalls
from workers.validators.check_process import shared_check_process
from workers.validators.violation import ValidatorUnavailable, Violation

log = logging.getLogger(__name__)

Complete = Callable[[str, ModelCall], Awaitable[ModelReply]]
"""Returns the reply of the model of a name. Raises `ModelError` and `ModelWaits`."""

NOTHING = Usage()
MOST_FLAWS = 5
NO_KEY = "calls cannot be signed: HONE_SECRET_KEY is not set"


@value(slots=True)
class Served:
    """A reply with the usage of every attempt, and the models that failed before it."""

    reply: ModelReply
    tried: tuple[Tried, ...]


class StepWaits(Exception):
    """No model, or no endpoint, takes the call of a step now: made again after the shortest `wait`.

    `awaited` may take the call then, and `usage` is its consumption so far. What has `failed` for
    good is not asked again.
    """

    def __init__(
        self, waits: Sequence[ModelWaits], usage: Usage, failed: tuple[Tried, ...] = ()
    ) -> None:
        self.wait = min(waits, key=lambda wait: wait.wait_s)
        words = (in_words(wait.awaited, wait.reason, wait.detail) for wait in waits)
        super().__init__(" ".join(words))
        self.awaited = tuple(wait.awaited for wait in waits)
        self.usage, self.failed = usage, failed


async def ask_in_turn(
    complete: Complete,
    names: Sequence[str],
    call: ModelCall,
    fallback_after_s: float = 10,
    failed: tuple[Tried, ...] = (),
) -> Served:
    """Return the reply of the first model that succeeds.

    A model that takes no call now is waited for, unless its breaker is open or the wait is longer
    than `fallback_after_s`: then the next one is asked. If none replies and one may do so later,
    `StepWaits` is raised.

    Every `ModelError` leads to the next model, refusals included: a missing key, an unknown model,
    a text too long or a content filter concerns one server, and the next may accept the call. A
    call that every server rejects costs one rejection each. When all fail, the last error is raised
    and names every model with its error. The first model is called under the key of the step, the
    others under keys of their own (`KEY;model=NAME`). What has `failed` before is not asked.
    """
    tried, waits, spent = failed, list[ModelWaits](), NOTHING
    for name in names:
        if any(name == before.model for before in failed):
            continue
        is_other = name != call.model
        asked = call.changed(model=name, key=f"{call.key};model={name}") if is_other else call
        try:
            reply = await complete(name, asked)
        except ModelWaits as wait:
            spent += _taken(wait.usage)
            tried += (Tried(model=name, code=wait.reason, detail=wait.detail),)
            waits.append(wait)
            if not wait.is_open and wait.wait_s <= fallback_after_s:
                break
        except ModelError as error:
            spent += _taken(error.usage) if isinstance(error, ModelRefused) else error.usage
            tried += (Tried(model=name, code=error.code, detail=error.detail),)
            failed += tried[-1:]
            if len(failed) == len(names):
                raise _all_failed(error, failed, spent) from None
        else:
            return Served(replace(reply, usage=spent + reply.usage) if tried else reply, tried)
    if not waits:
        raise ValueError("a seat needs at least one model")
    raise StepWaits(waits, spent, failed)


def _taken(usage: Usage) -> Usage:
    """Return the usage of a call that was not served: no call, unless a part of the reply came."""
    return usage if usage.input_tokens else usage.model_copy(update={"calls": 0})


def _all_failed(last: ModelError, tried: tuple[Tried, ...], spent: Usage) -> ModelError:
    if len(tried) > 1:
        last.detail = "; ".join(f"{failed.model}: {failed.detail}" for failed in tried)
    last.usage = spent
    return last


class Tools:
    """The tools of one request. Arguments are validated, and a call that fails is a result.

    Schemas are applied in the check process that the validators share.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        endpoints: EndpointClient | None = None,
        tenant: str = "default",
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._endpoints = endpoints
        self._tenant = tenant
        self._checked: dict[tuple[str, str], tuple[str, ...]] = {}

    async def check(self, calls: str) -> tuple[Finding, ...]:
        """Return what is wrong with planned calls, a JSON array, in order.

        It stops after `MOST_FLAWS` findings, since each call may take as long as a validator.
        """
        found: list[Finding] = []
        for call in json.loads(calls):
            tool, arguments = call["tool"], call["arguments"]
            for flaw in await self._flaws(tool, arguments):
                message = f"invalid arguments {json.dumps(arguments)[:200]} for {tool}: {flaw}"
                found.append(Finding(source=f"tools/{tool}", kind="arguments", message=message))
            if len(found) >= MOST_FLAWS:
                break
        return tuple(found[:MOST_FLAWS])

    async def prepare(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Do what takes time before a call is sent: check the arguments, and wait for Redis."""
        if name in self._tools and not await self._flaws(name, arguments) and self._endpoints:
            await self._endpoints.ready(self._tools[name], self._tenant)

    async def call(self, name: str, arguments: Mapping[str, Any], key: str) -> ToolResult:
        """Call a tool and return its answer; arguments that violate its schema are not sent.

        `key` is the same whenever the same step is repeated.
        """
        if name not in self._tools:
            return ToolResult(False, f"unknown tool {name}")
        if flaws := await self._flaws(name, arguments):
            return ToolResult(False, f"not sent, invalid arguments: {'; '.join(flaws)}")
        if self._endpoints is None:
            return ToolResult(False, NO_KEY)
        tool = self._tools[name]
        body = json.dumps({"tool": name, "arguments": arguments}, ensure_ascii=False).encode()
        return await self._answer(self._endpoints, tool, body, key)

    async def _answer(
        self, endpoints: EndpointClient, tool: Tool, body: bytes, key: str
    ) -> ToolResult:
        try:
            answer = await endpoints.post(tool, body, key, self._tenant)
        except EndpointUnavailable as error:
            unknown = f": {UNKNOWN}" if tool.effects and error.may_have_acted else ""
            return ToolResult(False, f"{error.detail}{unknown}")
        try:
            return ToolResult(True, _beginning(answer))
        except UnicodeDecodeError:
            detail = f"{tool.name} took the call, but its answer is not valid UTF-8"
            return ToolResult(False, detail)

    async def _flaws(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        written = json.dumps(arguments, ensure_ascii=False)
        if (name, written) not in self._checked:
            schema = JsonSchemaValidator(kind="json_schema", schema=self._tools[name].parameters)
            check_process = shared_check_process(is_slow=True)
            found = await asyncio.get_running_loop().run_in_executor(
                check_process.executor, check_process.check, schema, written
            )
            self._checked[name, written] = tuple(
                finding.message for finding in found if isinstance(finding, Violation)
            )
        return self._checked[name, written]


NO_TOOLS = Tools(())


def _beginning(answer: bytes) -> str:
    """Return at most `MAX_RESULT` characters of an answer, with a note if it has more.

    Raises UnicodeDecodeError. Of an answer that was not read whole the last character may be cut.
    """
    is_whole = len(answer) <= MAX_REPLY
    text = getincrementaldecoder("utf-8")().decode(answer, final=is_whole)
    if len(text) <= MAX_RESULT:
        return text
    length = f"{len(text)} characters" if is_whole else f"more than {MAX_REPLY} bytes"
    note = f"\n[cut off here: the whole answer has {length}]"
    return text[: MAX_RESULT - len(note)] + note


PUBLISHED_EVERY_S = 0.1
WATCHED_FOR_S = 15.0
"""How long an announcement counts: three times as long as the API takes to repeat it."""

Publish = Callable[[str, str, int, str | None], "asyncio.Future[Any]"]
"""Sends a piece: id, key, offset, and the text from there, or None at the end of the step."""


class PublishedText:
    """The text of one call, and what was published of it: until its context ends."""

    def __init__(
        self, publisher: "TextPublisher", refinement_id: str, key: str, begun: Callable[[str], str]
    ) -> None:
        self.sent = ""
        self.is_known = False
        """Whether anything of it was ever published."""
        self._publisher = publisher
        self._refinement_id = refinement_id
        self._key = key
        self._begun = begun
        self._text: Callable[[], str] = str

    @property
    def is_watched(self) -> bool:
        """Whether somebody watches the refinement now."""
        return self._publisher.is_watched(self._refinement_id)

    def __enter__(self) -> Self:
        self._publisher.started(self._refinement_id, self._key, self)
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        is_taken_back = error is not None and self.is_known
        self._publisher.ended(self._refinement_id, self._key, is_taken_back=is_taken_back)

    def follow(self, text: Callable[[], str]) -> None:
        """Publish from now on what `text` returns."""
        self._text = text
        self._publisher.schedule(self._refinement_id)

    def news(self) -> tuple[int, str] | None:
        """Return offset and text of what is new, None if nothing is, or nothing is certain now."""
        now = self._begun(self._text())
        if now and not now.startswith(self.sent):
            self.sent = ""
        offset = len(self.sent)
        if offset >= len(now):
            return None
        self.sent, self.is_known = now, True
        return offset, now[offset:]


class TextPublisher:
    """The texts that the calls of this worker are writing."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._loop = asyncio.get_running_loop()
        self._watched_until: dict[str, float] = {}
        self._forget_at = 0.0
        self._writing: dict[str, dict[str, PublishedText]] = {}
        self._ticking: set[str] = set()
        self._under_way: dict[str, asyncio.Future[Any]] = {}

    def watched(self, ids: Mapping[str, bool]) -> None:
        """Take an announcement: what is watched, and whether texts are needed from their start."""
        now = self._loop.time()
        if now > self._forget_at:
            self._watched_until = {key: at for key, at in self._watched_until.items() if at > now}
            self._forget_at = now + WATCHED_FOR_S
        for refinement_id, needs_whole in ids.items():
            self._watched_until[refinement_id] = now + WATCHED_FOR_S
            for text in self._writing.get(refinement_id, {}).values() if needs_whole else ():
                text.sent = ""
            self.schedule(refinement_id)

    def writing(
        self, refinement_id: str, key: str, begun: Callable[[str], str] = str
    ) -> PublishedText:
        """Publish the text that is followed in its context, if somebody watches.

        `begun` returns what is certain of a reply that is being written.
        Where the call fails it is taken back; else the event of its step ends it.
        """
        return PublishedText(self, refinement_id, key, begun)

    def started(self, refinement_id: str, key: str, text: PublishedText) -> None:
        """Learn that a text is being written from now on."""
        self._writing.setdefault(refinement_id, {})[key] = text

    def ended(self, refinement_id: str, key: str, *, is_taken_back: bool) -> None:
        """Learn that a text has ended."""
        texts = self._writing[refinement_id]
        del texts[key]
        if not texts:
            del self._writing[refinement_id]
        if is_taken_back:
            self._send(refinement_id, key, 0, None)

    def is_watched(self, refinement_id: str) -> bool:
        """Return whether somebody watches a refinement now."""
        return self._watched_until.get(refinement_id, 0.0) > self._loop.time()

    def schedule(self, refinement_id: str) -> None:
        """Begin to publish what grows of a refinement, if somebody watches it."""
        if refinement_id in self._ticking or refinement_id not in self._writing:
            return
        if self.is_watched(refinement_id):
            self._ticking.add(refinement_id)
            self._loop.call_later(PUBLISHED_EVERY_S, self._tick, refinement_id)

    def _tick(self, refinement_id: str) -> None:
        """Publish one text that has grown, unless Redis has not answered the last piece yet."""
        self._ticking.discard(refinement_id)
        texts = self._writing.get(refinement_id, {})
        for key, text in texts.items() if refinement_id not in self._under_way else ():
            if news := text.news():
                self._send(refinement_id, key, *news)
                texts[key] = texts.pop(key)  # the others come first next time
                break
        self.schedule(refinement_id)

    def _send(self, refinement_id: str, key: str, offset: int, text: str | None) -> None:
        def sent(answer: asyncio.Future[Any]) -> None:
            self._under_way.pop(refinement_id, None)
            if not answer.cancelled() and (error := answer.exception()):
                log.debug("%s: a piece of a text was not published: %s", refinement_id, error)

        self._under_way[refinement_id] = answer = self._publish(refinement_id, key, offset, text)
        answer.add_done_callback(sent)


class DraftChecks(Protocol):
    """The validators of one request."""

    async def examine(
        self, draft: str, key: str, scopes: Sequence[str] = ("",), *, corrects: bool = True
    ) -> FindingsReply: ...


@value()
class StepExecutor:
    """Performs the steps of one refinement and returns their journal entries."""

    refinement_id: str
    models: ModelCaller
    choices: Mapping[str, ModelChoice]
    checks: DraftChecks
    tools: Tools = NO_TOOLS
    voided: Mapping[str, int] = field(default_factory=dict)
    """How many replies of a step retries have voided, by key."""
    tenant: str = "default"
    permits: set[str] = field(default_factory=set)
    """Models for which the claim has a permit; the first call of each uses it up."""
    texts: TextPublisher | None = None
    """Publishes drafts and outputs while they are written."""
    calls: RefinementCalls | None = None
    """Counts the calls under way, and holds back those to a model that hangs."""
    failed: dict[str, tuple[Tried, ...]] = field(default_factory=dict)
    """The models that cannot perform a step, by its path, while others are waited for."""

    def perform(
        self, move: StepMove, *, progress: int = 0, tries: int = 0
    ) -> Awaitable[StepCompleted | StepFailed]:
        """Perform one step; the failure of a model or a validator is an entry like any other.

        `progress` is the number of recorded steps, and `tries` how often this one had to wait.
        Raises `StepWaits` when it has to wait for a model or an endpoint.
        """
        if isinstance(move, Ask):
            return self._ask(move, progress, tries)
        return self._check_or_call(move)

    async def prepare(self, call: Call) -> None:
        """Do what takes time before a call of a tool is sent, apart from the connection."""
        await self.tools.prepare(call.tool, call.arguments)

    def _key(self, move: StepMove) -> str:
        """Return the idempotency key of a step: a new one once its reply was voided.

        A server that keeps the reply of the old key would repeat the reply that the retry voids.
        """
        voided = self.voided.get(move.path, 0)
        key = f"{self.refinement_id}/{move.path}"
        return f"{key};retry={voided}" if voided else key

    async def _check_or_call(self, move: Check | Call) -> StepCompleted | StepFailed:
        began = asyncio.get_running_loop().time()
        try:
            if isinstance(move, Check):
                return _completed(move, "check", await self._findings(move), NOTHING, began)
            result = await self.tools.call(move.tool, move.arguments, self._key(move))
        except ValidatorUnavailable as error:
            return _failed(move, "validator_unavailable", error.detail, NOTHING, began)
        reply = ToolReply(ok=result.ok, text=result.text)
        return _completed(move, "call", reply, NOTHING, began)

    async def _findings(self, move: Check) -> FindingsReply:
        if move.of == "calls":
            return FindingsReply(findings=await self.tools.check(move.draft))
        try:
            return await self.checks.examine(
                move.draft, self._key(move), move.scopes, corrects=move.corrects
            )
        except EndpointWaits as away:
            wait = ModelWaits(away.name, away.reason, away.wait_s, away.detail)
            raise StepWaits([wait], NOTHING) from None

    def _choice(self, move: Ask) -> ModelChoice:
        return self.choices[seat_at(self.choices, move.seat, move.path)]

    async def _ask(self, move: Ask, progress: int, tries: int) -> StepCompleted | StepFailed:
        began = asyncio.get_running_loop().time()
        choice = self._choice(move)
        prompt = _reference(move.prompt.name, move.prompt.version)
        names: Sequence[str] = choice.names()
        if self.permits:  # the model for which there is one goes first: the others are busy
            names = sorted(names, key=lambda name: not self._permits_for(name))
        heat = move.prompt.temperature if choice.temperature is None else choice.temperature
        most = move.max_output_tokens or choice.max_output_tokens or DEFAULT_MAX_OUTPUT_TOKENS
        try:
            with self._published(move) as follower:
                call = ModelCall(
                    model=choice.model,
                    prompt=move.prompt,
                    prompt_request=move.prompt_request,
                    key=self._key(move),
                    role=move.role,
                    temperature=heat,
                    max_output_tokens=most,
                    expected_output_tokens=move.expected_output_tokens,
                    reasoning_effort=choice.reasoning_effort,
                    tenant=self.tenant,
                    progress=progress,
                    tries=tries,
                    follower=follower,
                )
                failed = self.failed.pop(move.path, ())
                after_s = choice.fallback_after_s
                served = await ask_in_turn(self._complete, names, call, after_s, failed)
        except StepWaits as waits:
            self.failed[move.path] = waits.failed
            raise
        except ModelError as error:
            known = {"model": choice.model, "prompt": prompt}
            return _failed(move, error.code, error.detail, error.usage, began, **known)
        answer = served.reply
        describe_reply(answer)
        return _completed(
            move,
            "ask",
            TextReply(text=answer.text),
            answer.usage,
            began,
            model=answer.model,
            tried=served.tried,
            prompt=prompt,
            caveats=dropped_in(move, answer.text),
        )

    async def _complete(self, name: str, call: ModelCall) -> ModelReply:
        clock = asyncio.get_running_loop().time
        began = clock()
        if self.permits and (permits := self._permits_for(name)):
            self.permits.difference_update(permits)
            call = call.changed(has_permit=True)
        try:
            with self._under_way(name, call):
                reply = await self.models.complete(name, call)
        except (ModelWaits, ModelError) as error:
            result = "not_served" if isinstance(error, ModelWaits) else "failed"
            count_call(name, call.role, result, error.usage)
            describe_refusal(name, error)
            raise
        count_call(name, call.role, "ok", reply.usage, clock() - began)
        return reply

    def _under_way(self, name: str, call: ModelCall) -> AbstractContextManager[None]:
        """Count a call, but not one of the editor, which is busy rather than waiting."""
        if self.calls is None or name == EDITOR:
            return nullcontext()
        return self.calls.calling(name, has_permit=call.has_permit)

    def _permits_for(self, name: str) -> set[str]:
        """Return the permits of the claim for a model, under the server's or the tenant's key."""
        return self.permits & {name, own_key_name(self.tenant, name)}

    def _published(self, move: Ask) -> AbstractContextManager[TextFollower | None]:
        """Return who follows the reply: for texts only, not for edits, plans or verdicts."""
        is_text = move.prompt.schema is None or move.prompt.is_document
        is_text = is_text and move.role == "generator" and not move.prepares
        if self.texts is None or not is_text:
            return nullcontext()
        return self.texts.writing(
            self.refinement_id, move.path, lambda reply: reply_reader(move, reply).begun()
        )


MOST_TOLD = 500
"""Characters of a caveat about a dropped item."""


def dropped_in(move: Ask, text: str) -> tuple[Caveat, ...]:
    """Return what the strategy will drop of a reply; nothing of one that it cannot read."""
    reply = reply_reader(move, text)
    try:
        if move.read is not None:
            move.read(reply)
    except Unreadable:
        return ()
    return tuple(
        Caveat(
            code="item_dropped", path=move.path, detail=f"{left.item}: {left.reason}"[:MOST_TOLD]
        )
        for left in reply.dropped
    )


def _completed(
    move: StepMove,
    kind: Literal["ask", "check", "call"],
    reply: AnyReply,
    usage: Usage,
    began: float,
    **known: Any,
) -> StepCompleted:
    """Return the journal entry of a step that ends now."""
    usage = usage.lasting(asyncio.get_running_loop().time() - began)
    return StepCompleted(
        key=move.path,
        kind=kind,
        reply=reply,
        usage=usage,
        seconds=usage.seconds,
        about=about(move),
        next=(),
        **known,
    )


def _failed(
    move: StepMove, code: str, detail: str, usage: Usage, began: float, **known: Any
) -> StepFailed:
    """Return the journal entry of a step that fails now."""
    return StepFailed(
        key=move.path,
        code=code,
        detail=detail,
        usage=usage.lasting(asyncio.get_running_loop().time() - began),
        about=about(move),
        next=(),
        **known,
    )


@lru_cache(1_024)
def _reference(name: str, version: int) -> PromptRef:
    return PromptRef(name=name, version=version)


PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""Well-known names of the convention for providers that are usually named otherwise."""


def step_span(
    move: StepMove, choices: Mapping[str, ModelChoice]
) -> AbstractContextManager[TraceSpan]:
    """Begin the span of a step; it is the current one until the context ends."""
    now = current_span()
    if not now.is_recorded:
        return nullcontext(now)
    path: Attributes = {"hone.step": move.path}
    match move:
        case Ask():
            choice = choices[seat_at(choices, move.seat, move.path)]
            prompt, most = move.prompt, move.max_output_tokens or choice.max_output_tokens
            heat = prompt.temperature if choice.temperature is None else choice.temperature
            is_text = prompt.schema is None
            name, asked = _asked(choice.model, prompt.name, move.role, heat, most, is_text)
            return now.child(name, "client", path, asked)
        case Call():
            attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": move.tool}
            return now.child(f"execute_tool {move.tool}", "client", path, attributes)
        case Check():
            return now.child("check", "internal", path)


@lru_cache(1_024, typed=True)
def _asked(
    model: str, prompt: str, role: str, heat: float | None, most: int | None, is_text: bool
) -> tuple[str, Attributes]:
    """Return name and first attributes of the span of a call."""
    attributes: Attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _provider_in(model),
        "gen_ai.request.model": _name_in(model),
        "gen_ai.request.temperature": heat,
        "gen_ai.request.max_tokens": most,
        "gen_ai.output.type": "text" if is_text else "json",
        "gen_ai.prompt.name": prompt,
        "hone.role": role,
    }
    return f"chat {_name_in(model)}", attributes


def describe_entry(
    span: TraceSpan, move: StepMove, entry: StepCompleted | StepFailed, *, is_stored: bool
) -> None:
    """Add to the span of a step what came of it, texts if they are wanted and may be stored."""
    if not span.is_recorded:
        return
    if isinstance(move, Ask):
        used = entry.usage
        span.set(
            {
                "gen_ai.usage.input_tokens": used.input_tokens,
                "gen_ai.usage.output_tokens": used.output_tokens,
                "gen_ai.usage.cache_read.input_tokens": used.cached_tokens or None,
                "gen_ai.usage.reasoning.output_tokens": used.thinking_tokens or None,
                "hone.requests": used.calls if used.calls != 1 else None,
                "hone.cost_usd": used.cost_usd,
            }
        )
    if span.has_content and is_stored:
        span.set(_texts(move, entry))
    if isinstance(entry, StepFailed):
        span.set({}, error=entry.code)
        return
    match entry.reply:
        case TextReply() if entry.model is not None:
            is_fallback = bool(entry.tried)
            span.set(_answered(entry.model, is_fallback=is_fallback))
        case FindingsReply():
            span.set({"hone.findings": len(entry.reply.findings)})
        case ToolReply(ok=False):
            span.set({}, error="tool_failed")


@lru_cache(1_024)
def _answered(model: str, *, is_fallback: bool) -> Attributes:
    """Return which model answered; a fallback may be of another provider."""
    attributes: dict[str, Attribute] = {"gen_ai.response.model": _name_in(model)}
    if is_fallback:
        attributes["gen_ai.provider.name"] = _provider_in(model)
    return attributes


def describe_reply(reply: ModelReply) -> None:
    """Add why the model stopped, which no journal has, to the step that goes on."""
    span = current_span()
    if span.is_recorded and reply.finish_reason is not None:
        span.set({"gen_ai.response.finish_reasons": (reply.finish_reason,)})


def describe_refusal(model: str, error: ModelError | ModelWaits) -> None:
    """Note that a model did not answer, as an event of the step that goes on."""
    span = current_span()
    if not span.is_recorded:
        return
    if isinstance(error, ModelError):
        span.event("model failed", {"gen_ai.request.model": model, "error.type": error.code})
        return
    attributes: Attributes = {
        "gen_ai.request.model": model,
        "hone.reason": error.reason,
        "hone.wait_s": round(error.wait_s, 3),
        "hone.breaker_open": error.is_open,
    }
    span.event("model does not serve now", attributes)


def describe_ending(span: TraceSpan, attributes: Mapping[str, Any]) -> None:
    """Add to the span of a claim how the refinement ended, or that it was paused."""
    if span.is_recorded:
        ending = {f"hone.{name}": value for name, value in attributes.items()}
        span.set(ending, error=attributes["error"])


def _texts(move: StepMove, entry: StepCompleted | StepFailed) -> dict[str, str]:
    """Return what was said to a model or a tool and what it answered."""
    reply = entry.reply if isinstance(entry, StepCompleted) else None
    if isinstance(move, Call):
        attributes = {"gen_ai.tool.call.arguments": json.dumps(move.arguments, ensure_ascii=False)}
        if isinstance(reply, ToolReply):
            attributes["gen_ai.tool.call.result"] = reply.text
        return attributes
    if not isinstance(move, Ask):
        return {}
    attributes = {
        "gen_ai.system_instructions": json.dumps([_part(move.prompt.system)], ensure_ascii=False),
        "gen_ai.input.messages": _messages("user", move.prompt.user),
    }
    if isinstance(reply, TextReply):
        attributes["gen_ai.output.messages"] = _messages("assistant", reply.text)
    return attributes


def _messages(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [_part(text)]}], ensure_ascii=False)


def _part(text: str) -> dict[str, str]:
    return {"type": "text", "content": text}


def _provider_in(model: str) -> str:
    provider = model.partition(":")[0]
    return PROVIDERS.get(provider, provider)


def _name_in(model: str) -> str:
    return model.partition(":")[2]
