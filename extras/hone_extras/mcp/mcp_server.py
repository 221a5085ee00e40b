"""A server of the Model Context Protocol: an assistant refines texts with Hone.

Each tool is a request to a Hone server; progress notifications follow its events.
"""

import asyncio
import hmac
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, TypeVar

from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field

from app.cli.contract_client import CliError, ContractClient, path_of
from app.contract.events import EventType, IterationCompleted
from app.contract.reviews import ReviewDecision
from app.contract.snapshot import IterationList, Snapshot
from hone import HoneError

Answer = TypeVar("Answer")

INSTRUCTIONS = """\
Hone improves a text until a critic scores it high enough: it drafts, judges, checks and revises.
Use `refine` when a first answer is not good enough. It can take minutes and reports progress. A
refinement that is `paused` waits for a person: show them the draft, then call `review`.
"""


class Wanted(BaseModel):
    """One thing that a draft is judged on."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="A short name, such as `accuracy`.")
    description: str | None = Field(None, description="What a good draft does.")
    weight: float = Field(1, gt=0, le=100)
    floor: float | None = Field(None, ge=0, le=1, description="Lowest score that can pass.")


class Refined(BaseModel):
    """How far a refinement is."""

    id: str
    status: str
    outcome: str | None = Field(
        description="`passed`, `best_effort`, `failed` or `canceled`; null until it ends."
    )
    reason: str | None = Field(description="Why the outcome is that, in one sentence.")
    draft: str | None = Field(description="The best draft, or the one that a person decides about.")
    score: float | None = Field(description="The score of exactly this draft, from 0 to 1.")
    calls: int = Field(description="Calls of models so far.")
    cost_usd: float | None
    notes: list[str] = Field(description="What a person is asked, what failed or is missing.")


class RefineArguments(BaseModel):
    """What `refine` takes."""

    model_config = ConfigDict(extra="forbid")

    draft: str | None = Field(None, description="The text to improve.")
    task: str | None = Field(None, description="What to write, if there is no draft.")
    criteria: list[Wanted] | None = None
    threshold: float | None = Field(
        None, ge=0, le=1, description="The score that is good enough; 0.85 by default."
    )
    max_iterations: int | None = Field(None, ge=1)
    options: dict[str, Any] | None = Field(
        None,
        description="Further fields of a request of Hone, such as `strategy`, `validators`,"
        " `context`, `review` or `models`.",
    )


class RefinementArguments(BaseModel):
    """What `get_refinement` takes."""

    model_config = ConfigDict(extra="forbid")

    refinement_id: str = Field(description="The `id` that `refine` returned.")


class ReviewArguments(ReviewDecision):
    """What `review` takes: every field of a decision, and the refinement that it is about."""

    refinement_id: str = Field(description="The `id` that `refine` returned.")


class AnyArguments(ArgModelBase):
    """Arguments as they came: the API judges them, and says what is wrong in its own words."""

    model_config = ConfigDict(extra="allow")

    def model_dump_one_level(self) -> dict[str, Any]:
        """Return them as the one argument of a method of AssistantTools, without nulls."""
        return {"given": _without_nulls(self.model_extra or {})}


class AssistantTools:
    """Each method is a tool, and its docstring what the assistant reads of it."""

    def __init__(self, hone: ContractClient) -> None:
        self._hone = hone

    async def refine(self, context: Context[Any, Any], given: dict[str, Any]) -> Refined:
        """Improve `draft`, or write a text for `task`, and return the best draft with its score.

        Waits until it has ended or asks a person. When the call is cancelled, the refinement is
        canceled.
        """
        if isinstance(criteria := given.get("criteria"), list):
            given["criteria"] = [
                _without_nulls(criterion) if isinstance(criterion, dict) else criterion
                for criterion in criteria
            ]
        options = given.pop("options", {})
        if not isinstance(options, dict):
            raise ToolError("`options` must be an object with further fields of a request")
        if twice := sorted(given.keys() & options.keys()):
            raise ToolError(f"{', '.join(twice)}: given both as an argument and in `options`")
        body = given | options
        submitting = asyncio.create_task(
            _ask(lambda: self._hone.read(Snapshot, "/v1/refinements", method="POST", json=body).id)
        )
        try:
            started = await asyncio.shield(submitting)
            ended = await _follow(self._hone, started, context)
        except asyncio.CancelledError:
            await asyncio.shield(self._cancel(submitting))
            raise
        return await _ask(_state, self._hone, started, ended)

    async def _cancel(self, submitting: asyncio.Task[str]) -> None:
        """Cancel what is submitted, once it is; what was refused need not be."""
        with suppress(ToolError):
            await _ask(self._hone.cancel, await submitting)

    async def get_refinement(self, given: dict[str, Any]) -> Refined:
        """Return how far a refinement is, with its best draft."""
        refinement_id = _refinement_id(given)
        if given:
            raise ToolError(f"{', '.join(sorted(given))}: only `refinement_id` is an argument")
        return await _ask(_state, self._hone, refinement_id)

    async def review(self, given: dict[str, Any]) -> Refined:
        """Tell a paused refinement what a person decided; only after asking the person.

        `revise` needs `feedback`; `replace` the new `draft`, or the new `arguments` of a call;
        `rate` the `score`. `path` is the key of the review, where several are open. Where several
        people decide, `reviewer` is the name of the one.
        """
        refinement_id = _refinement_id(given)
        path = path_of(refinement_id, "/reviews")
        await _ask(lambda: self._hone.request("POST", path, json=given))
        return await _ask(_state, self._hone, refinement_id)


@dataclass(frozen=True)
class OneToken:
    """Lets in who sends one token."""

    token: str

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the access that a token grants; None for an unknown token."""
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return None
        return AccessToken(token=token, client_id="assistant", scopes=[])


def serve_http(hone: ContractClient, port: int, token: str) -> None:
    """Serve MCP on a port of 127.0.0.1 until Ctrl-C.

    Callers send the token. A page in a browser is refused unless its origin is this port.
    """
    addresses = (f"127.0.0.1:{port}", f"localhost:{port}")
    origins = [f"http://{address}" for address in addresses]
    security = TransportSecuritySettings(allowed_hosts=[*addresses], allowed_origins=origins)
    # The SDK asks who issues tokens, and shows it to nobody where there is no resource.
    auth = AuthSettings(issuer_url=AnyHttpUrl(origins[0]), resource_server_url=None)
    server = mcp_server(hone, auth=auth, token_verifier=OneToken(token))
    server.run("streamable-http", host="127.0.0.1", port=port, transport_security=security)


def mcp_server(hone: ContractClient, **options: Any) -> MCPServer[Any]:
    """Return a server whose tools use this client; `options` are those of the SDK."""
    tools = AssistantTools(hone)
    return MCPServer(
        "hone",
        title="Hone",
        instructions=INSTRUCTIONS,
        version=version("hone"),
        log_level="WARNING",
        **options,
        tools=[
            _tool(tools.refine, RefineArguments, context_kwarg="context"),
            _tool(tools.get_refinement, RefinementArguments),
            _tool(tools.review, ReviewArguments),
        ],
    )


def _tool(
    method: Callable[..., Awaitable[Refined]],
    arguments: type[BaseModel],
    context_kwarg: str | None = None,
) -> Tool:
    return Tool(
        fn=method,
        name=method.__name__,
        description=inspect.getdoc(method) or "",
        parameters=arguments.model_json_schema(),
        fn_metadata=FuncMetadata(arg_model=AnyArguments, output_model=Refined),
        is_async=True,
        context_kwarg=context_kwarg,
    )


def _without_nulls(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that are not null: assistants name every field of a tool."""
    return {name: value for name, value in given.items() if value is not None}


def _refinement_id(given: dict[str, Any]) -> str:
    """Take the id out of the arguments."""
    refinement_id = given.pop("refinement_id", None)
    if not isinstance(refinement_id, str) or not re.fullmatch(r"\w+", refinement_id):
        raise ToolError("`refinement_id` is required: the `id` that `refine` returned")
    return refinement_id


async def _ask(function: Callable[..., Answer], *arguments: Any) -> Answer:
    """Call the client in a thread; the assistant receives refusals of the server."""
    try:
        return await asyncio.to_thread(function, *arguments)
    except (CliError, HoneError) as error:
        raise ToolError(str(error)) from error


async def _follow(
    hone: ContractClient, refinement_id: str, context: Context[Any, Any]
) -> Snapshot | None:
    """Report the id and each judged draft; return how it ended, None if it waits for a person."""
    events = hone.follow(refinement_id)
    await context.report_progress(0, message=f"{refinement_id} has begun")
    judged, ended = 0, None
    while event := await _ask(lambda: next(events, None)):
        if event.type is EventType.PAUSED:
            return None
        if isinstance(done := event.data, Snapshot):
            ended = done
        if isinstance(done, IterationCompleted):
            judged += 1
            score = "no score" if done.score is None else f"score {done.score:g}"
            message = f"{done.path}: {score}, {'passed' if done.passed else 'not passed yet'}"
            await context.report_progress(judged, message=message)
    return ended


def _state(hone: ContractClient, refinement_id: str, ended: Snapshot | None = None) -> Refined:
    """Return how far it is; a text that is not stored is sent once, with how it `ended`."""
    now = ended or hone.snapshot(refinement_id)
    draft = now.result.draft if now.result else None
    score = now.result.score if now.result else None
    path = (now.review.path if now.review else None) or (now.best.path if now.best else None)
    if draft is None and path and now.erased_at is None:
        judged = hone.read(IterationList, path_of(refinement_id, "/iterations"))
        shown = [draft for draft in judged.data if draft.path == path]
        draft, score = (shown[0].draft, shown[0].score) if shown else (None, None)
    return Refined(
        id=now.id,
        status=now.status,
        outcome=now.outcome,
        reason=now.reason,
        draft=draft,
        score=score,
        calls=now.usage.calls,
        cost_usd=now.usage.cost_usd,
        notes=list(_notes(now)),
    )


def _notes(now: Snapshot) -> Iterator[str]:
    for review in now.reviews or (now.review,):
        if review:
            given = [approval.reviewer for approval in review.approvals]
            yield f"a person is asked about `{review.key}`: {review.question}" + (
                f" Approved so far by: {', '.join(given)}." if given else ""
            )
            if review.call:
                arguments = json.dumps(review.call.arguments, ensure_ascii=False)
                yield f"the call is {review.call.tool} with {arguments}"
    if now.waiting:
        yield f"waits for {now.waiting.model}: {now.waiting.detail or now.waiting.reason}"
    if now.error:
        yield f"failed: {now.error.code}: {now.error.detail}"
    if now.result:
        yield from (f"{caveat.code}: {caveat.detail}" for caveat in now.result.caveats)
