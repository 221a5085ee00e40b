"""The refinement as a workflow of DBOS behind FastAPI, in one process, as its documentation does.

Each model call is a step, whose reply Postgres keeps. A watched workflow also writes every step
into a stream of DBOS, which the API passes on. Unwatched, a submission waits for the end.
"""

import argparse
import json
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import uvicorn
from dbos import DBOS  # type: ignore[import-not-found]
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from benchmarks.loop import play
from benchmarks.peers.telling import LateClient

app = FastAPI()
client = LateClient(os.environ["MODEL_URL"])


@DBOS.step()  # type: ignore[untyped-decorator]
async def call(body: bytes) -> bytes:
    """Call the model."""
    return await client.ask(body)


@DBOS.workflow()  # type: ignore[untyped-decorator]
async def refine(_request: dict[str, Any]) -> float:
    """Play a refinement that nobody watches."""
    return await play(call)


@DBOS.workflow()  # type: ignore[untyped-decorator]
async def refine_watched(_request: dict[str, Any]) -> None:
    """Play a refinement, and write every step into a stream."""

    async def write(kind: str, **more: Any) -> None:
        step = {"kind": kind, "at": datetime.now(UTC).isoformat(), **more}
        await DBOS.write_stream_async("steps", step)

    async def checkpoint(step: int, reply: bytes) -> None:
        await write("step.completed", step=step, reply=reply.decode())

    await write("refinement.started")
    await write("refinement.completed", score=await play(call, checkpoint))
    await DBOS.close_stream_async("steps")


@app.post("/refine")
async def submit_and_wait(request: dict[str, Any]) -> dict[str, float]:
    """Play a refinement; respond when it has ended."""
    return {"score": await refine(request)}


@app.post("/v1/refinements", status_code=202)
async def submit(request: dict[str, Any]) -> dict[str, str]:
    """Begin a refinement."""
    handle = await DBOS.start_workflow_async(refine_watched, request)
    return {"id": handle.get_workflow_id()}


@app.get("/v1/refinements/{refinement_id}/events")
async def watch(refinement_id: str) -> StreamingResponse:
    """Stream the steps that there are, and those that follow."""
    return StreamingResponse(_events(refinement_id), media_type="text/event-stream")


async def _events(refinement_id: str) -> AsyncIterator[str]:
    async for step in DBOS.read_stream_async(refinement_id, "steps"):
        yield f"event: {step['kind']}\ndata: {json.dumps(step)}\n\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--database", required=True)
    given = parser.parse_args()
    config = {"name": "peer", "system_database_url": given.database, "log_level": "ERROR"}
    DBOS(config=config)
    DBOS.launch()
    uvicorn.run(app, port=given.port, log_level="error", access_log=False)
