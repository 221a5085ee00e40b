"""A server of the Model Context Protocol: an assistant refines texts with Hone.

Each tool is a request to a Hone server; progress notifications follow its events.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, ConfigDict, Field

from app.cli.client import Client, CliError
from app.contract.events import Event, EventType, IterationCompleted
from app.contract.reviews import ReviewAction
from app.contract.snapshot import Snapshot

Answer = TypeVar("Answer")
END = object()

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
    passed: bool | None = Field(description="Whether every demand was met; null until it ends.")
    stop_reason: str | None
    draft: str | None = Field(description="The best draft, or the one that a person decides about.")
    score: float | None = Field(description="The score of exactly this draft, from 0 to 1.")
    calls: int = Field(description="Calls of models so far.")
    cost_usd: float | None
    notes: list[str] = Field(description="What a person is asked, what failed or is missing.")


class AssistantTools:
    """Each method is a tool, and its docstring what the assistant reads of it."""

    def __init__(self, hone: Client) -> None:
        self._hone = hone

    async def refine(
        self,
        context: Context[Any, Any],
        draft: str | None = None,
        task: str | None = None,
        criteria: list[Wanted] | None = None,
        threshold: float | None = None,
        max_iterations: int | None = None,
        options: dict[str, Any] | None = None,
    ) -> Refined:
        """Improve `draft`, or write a text for `task`, and return the best draft with its score.

        `threshold` (0 to 1, 0.85) is the score that is good enough; `options` has further fields of
        a request of Hone, such as `strategy`, `validators`, `context` or `models`. Waits until it
        has ended or asks a person. When the call is cancelled, the refinement is canceled.
        """
        given = {
            "draft": draft,
            "task": task,
            "threshold": threshold,
            "max_iterations": max_iterations,
            "criteria": [it.model_dump(exclude_none=True) for it in criteria or ()] or None,
        }
        asked = _known(given)
        if twice := sorted(asked.keys() & (options or {}).keys()):
            raise ToolError(f"{', '.join(twice)}: given both as an argument and in `options`")
        started = await _ask(self._hone.submit, asked | (options or {}))
        try:
            await _follow(self._hone, started.id, context)
        except asyncio.CancelledError:
            await asyncio.shield(_ask(self._hone.cancel, started.id))
            raise
        return await _ask(_state, self._hone, started.id)

    async def get_refinement(self, refinement_id: str) -> Refined:
        """Return how far a refinement is, with its best draft."""
        return await _ask(_state, self._hone, refinement_id)

    async def review(
        self,
        refinement_id: str,
        action: ReviewAction,
        feedback: str | None = None,
        draft: str | None = None,
        reviewer: str | None = None,
    ) -> Refined:
        """Tell a paused refinement what a person decided; only after asking the person.

        `revise` needs `feedback`, `replace` the new `draft`. Where several people decide,
        `reviewer` is the name of the one.
        """
        given = {"action": action, "feedback": feedback, "draft": draft, "reviewer": reviewer}
        await _ask(self._hone.review, refinement_id, _known(given))
        return await _ask(_state, self._hone, refinement_id)


def mcp_server(hone: Client) -> MCPServer[Any]:
    """Return a server whose tools use this client."""
    server: MCPServer[Any] = MCPServer(
        "hone", title="Hone", instructions=INSTRUCTIONS, log_level="WARNING"
    )
    tools = AssistantTools(hone)
    for tool in (tools.refine, tools.get_refinement, tools.review):
        server.add_tool(tool)
    return server


def _known(given: dict[str, Any]) -> dict[str, Any]:
    return {name: it for name, it in given.items() if it is not None}


async def _ask(function: Callable[..., Answer], *arguments: Any) -> Answer:
    """Call the client in a thread; what the server refuses is told to the assistant."""
    try:
        return await asyncio.to_thread(function, *arguments)
    except CliError as error:
        raise ToolError(str(error)) from error


async def _follow(hone: Client, refinement_id: str, context: Context[Any, Any]) -> None:
    """Report each judged draft, until it has ended or waits for a person."""
    events = hone.follow(refinement_id)
    judged = 0
    while (event := await _ask(next, events, END)) is not END:
        if isinstance(event, Event) and event.type is EventType.PAUSED:
            return
        if isinstance(event, Event) and isinstance(event.data, IterationCompleted):
            judged += 1
            done = event.data
            score = "no score" if done.score is None else f"score {done.score:g}"
            message = f"{done.path}: {score}, {'passed' if done.passed else 'not passed yet'}"
            await context.report_progress(judged, message=message)


def _state(hone: Client, refinement_id: str) -> Refined:
    now = hone.get(refinement_id)
    draft = now.result.draft if now.result else None
    score = now.result.score if now.result else None
    path = (now.review.path if now.review else None) or (now.best.path if now.best else None)
    if draft is None and path:
        shown = [it for it in hone.iterations(refinement_id) if it.path == path]
        draft, score = (shown[0].draft, shown[0].score) if shown else (None, None)
    return Refined(
        id=now.id,
        status=now.status,
        passed=now.passed,
        stop_reason=now.stop_reason,
        draft=draft,
        score=score,
        calls=now.usage.calls,
        cost_usd=now.usage.cost_usd,
        notes=list(_notes(now)),
    )


def _notes(now: Snapshot) -> Iterator[str]:
    for review in now.reviews or (now.review,):
        if review:
            given = [it.reviewer for it in review.approvals]
            yield f"a person is asked: {review.question}" + (
                f" Approved so far by: {', '.join(given)}." if given else ""
            )
    if now.waiting:
        yield f"waits for {now.waiting.model}: {now.waiting.reason}"
    if now.error:
        yield f"failed: {now.error.code}: {now.error.detail}"
    if now.result:
        yield from (f"{it.code}: {it.detail}" for it in now.result.caveats)
        yield from (f"missing: {it}" for it in now.result.missing)
