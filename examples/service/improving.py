"""A service that has Hone improve texts: docs/clients.md, "Inside your service"."""

import os
from typing import Any

from fastapi import FastAPI, Header, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

import hone

app = FastAPI()
editor = hone.AsyncHone(max_retries=0)  # a caller waits: fail at once, and let them come again
SECRET, HOOK = os.environ["WEBHOOK_SECRET"], "http://127.0.0.1:8700/hone"
OURS = {"/draft": "text", "/criteria/1/description": "audience"}  # names of Hone, and ours
AWAY = (
    hone.ServerUnreachable,
    hone.Unavailable,
    hone.Overloaded,
    hone.RateLimited,
    hone.QuotaExceeded,
)
ANSWERS = {  # what a caller can mend
    hone.NotFound: (404, "there is none"),
    hone.Conflict: (409, "it has ended"),
    hone.PreconditionFailed: (409, "it has changed: look again"),
    hone.IdempotencyMismatch: (422, "the key was used with another text"),
    hone.TooLarge: (413, "the text is too long"),
}
received: set[str] = set()  # a database, where several processes run


class Improvement(BaseModel):
    text: str
    audience: str


@app.post("/improvements", status_code=202)
async def submit(body: Improvement, idempotency_key: str | None = Header(None)) -> dict[str, Any]:
    submitted = await editor.submit(
        body.text,
        idempotency_key=idempotency_key,  # of the caller: who comes again gets the same one
        criteria=[
            {"name": "conciseness"},
            {"name": "readability", "description": f"Easy to read for {body.audience}."},
        ],
        threshold=0.9,
        max_iterations=4,
        stop={"max_cost_usd": 0.05},
        webhook={"url": HOOK, "secret": SECRET},
    )
    return {"id": submitted.id}


@app.get("/improvements/{improvement_id}")
async def look(improvement_id: str) -> dict[str, Any]:
    snapshot = await editor.get(improvement_id)
    result, best = snapshot.result, snapshot.best
    return {
        "status": snapshot.status,
        "iteration": snapshot.iteration,
        "best": best.score if best else None,
        "outcome": snapshot.outcome,
        "result": {"text": result.draft, "score": result.score} if result else None,
    }


@app.delete("/improvements/{improvement_id}", status_code=202)
async def stop(improvement_id: str) -> dict[str, Any]:
    return {"status": (await editor.cancel(improvement_id)).status}


@app.post("/hone")
async def ended(request: Request) -> Response:
    try:
        message = hone.verify_webhook(await request.body(), request.headers, SECRET)
    except hone.WebhookRejected:
        return Response(status_code=400)
    if message.id not in received:  # it may come twice
        print(message.type, message.data.id, message.data.status, flush=True)
    received.add(message.id)
    return Response(status_code=204)


@app.exception_handler(hone.HoneError)
async def explain(_request: Request, error: hone.HoneError) -> Response:
    if isinstance(error, hone.InvalidRequest):
        wrong = [
            {"field": OURS.get(fault["pointer"], "ours"), "detail": fault["detail"]}
            for fault in error.errors
        ]
        return JSONResponse({"errors": wrong}, 422)
    if isinstance(error, AWAY):
        return JSONResponse({"error": "busy, try again"}, 503, {"Retry-After": "10"})
    if found := ANSWERS.get(type(error)):
        return JSONResponse({"error": found[1]}, found[0])
    print("Hone refused:", error, flush=True)  # a key, a setting: yours to mend
    return JSONResponse({"error": "the editor failed"}, 502)
