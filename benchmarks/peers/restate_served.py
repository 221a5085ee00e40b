"""The refinement as a workflow of Restate: each model call is a `run`, whose reply it journals.

With `--watched` a workflow also resolves a durable promise at every step, and `step` waits for it:
watchers see steps over HTTP through Restate's ingress, by one request each that waits.
"""

import argparse
import asyncio

import restate  # type: ignore[import-not-found]
import uvloop
from hypercorn.asyncio import serve  # type: ignore[import-not-found]
from hypercorn.config import Config  # type: ignore[import-not-found]
from restate.serde import BytesSerde  # type: ignore[import-not-found]

from benchmarks.loop import AskModel, play
from benchmarks.peers.telling import model_calls

BYTES = BytesSerde()


def workflow(ask: AskModel, *, is_watched: bool) -> restate.Workflow:
    """Return the workflow, whose key is the id of a refinement."""
    refinement = restate.Workflow("Refinement")

    @refinement.main()  # type: ignore[untyped-decorator]
    async def run(ctx: restate.WorkflowContext, _request: dict[str, object]) -> float:
        async def ask_once(body: bytes) -> bytes:
            options = restate.RunOptions(serde=BYTES)
            reply: bytes = await ctx.run_typed("call", ask, options, body)
            return reply

        async def publish(step: int, reply: bytes) -> None:
            await ctx.promise(f"step {step}", serde=BYTES).resolve(reply)

        return await play(ask_once, publish if is_watched else None)

    @refinement.handler(output_serde=BYTES)  # type: ignore[untyped-decorator]
    async def step(ctx: restate.WorkflowSharedContext, number: int) -> bytes:
        reply: bytes = await ctx.promise(f"step {number}", serde=BYTES).value()
        return reply

    return refinement


async def run(port: int, model_url: str, *, is_watched: bool) -> None:
    """Serve the workflow over HTTP/2, as Restate's server calls it."""
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    async with model_calls(model_url) as ask:
        app = restate.app([workflow(ask, is_watched=is_watched)])
        await serve(app, config, shutdown_trigger=asyncio.Event().wait)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--watched", action="store_true")
    given = parser.parse_args()
    uvloop.run(run(given.port, given.model, is_watched=given.watched))
