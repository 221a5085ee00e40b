import os
from typing import Any

import hone
from fastapi import FastAPI, Header, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

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
heard: set[str] = set()  # a database, where several processes run


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


@app.get("/improvements/{id}")
async def look(id: str) -> dict[str, Any]:
    it = await editor.get(id)
    found = {"text": it.result.draft, "score": it.result.score} if it.result else None
    best = it.best.score if it.best else None
    return {
        "status": it.status,
        "iteration": it.iteration,
        "best": best,
        "outcome": it.outcome,
        "result": found,
    }


@app.delete("/improvements/{id}", status_code=202)
async def stop(id: str) -> dict[str, Any]:
    return {"status": (await editor.cancel(id)).status}


@app.post("/hone")
async def ended(request: Request) -> Response:
    try:
        message = hone.verify_webhook(await request.body(), request.headers, SECRET)
    except hone.WebhookRejected:
        return Response(status_code=400)
    if message.id not in heard:  # it may come twice
        print(message.type, message.data.id, message.data.status, flush=True)
    heard.add(message.id)
    return Response(status_code=204)


@app.exception_handler(hone.HoneError)
async def explain(_request: Request, error: hone.HoneError) -> Response:
    if isinstance(error, hone.InvalidRequest):
        wrong = [
            {"field": OURS.get(it["pointer"], "ours"), "detail": it["detail"]}
            for it in error.errors
        ]
        return JSONResponse({"errors": wrong}, 422)
    if isinstance(error, AWAY):
        return JSONResponse({"error": "busy, try again"}, 503, {"Retry-After": "10"})
    if isinstance(error, hone.NotFound):
        return JSONResponse({"error": "there is none"}, 404)
    print("Hone refused:", error, flush=True)  # a key, a setting: yours to mend
    return JSONResponse({"error": "the editor failed"}, 502)
