"""The tools of an assistant, with a scripted server."""

import asyncio
import json
import threading
from typing import Any

import pytest

from app.cli.contract_client import ContractClient
from app.contract.snapshot import Best
from hone_extras.mcp.mcp_server import AssistantTools
from tests.cli.scripted_refinement import EVENTS, ID, ending, snapshot, stream
from tests.cli.scripted_server import (
    CannedResponse,
    ReceivedRequest,
    ScriptedApi,
    scripted_server,
)
from tests.waiting import TIMEOUT_S

SUBMISSION, CANCEL = "POST /v1/refinements", f"POST /v1/refinements/{ID}/cancel"


class SlowApi(ScriptedApi):
    """Answers a submission only when it is let go."""

    arrived = threading.Event()
    let_go = threading.Event()

    def answer_to(self, asked: ReceivedRequest) -> CannedResponse:
        if asked.route == SUBMISSION:
            self.arrived.set()
            self.let_go.wait(TIMEOUT_S)
        return super().answer_to(asked)


async def test_a_call_that_is_cancelled_while_it_submits_cancels_the_refinement() -> None:
    context: Any = None
    with scripted_server(SlowApi) as server, ContractClient(server.url) as hone:
        assert isinstance(server, SlowApi)
        answer = CannedResponse(snapshot().model_dump_json())
        server.answers |= {SUBMISSION: [answer], CANCEL: [answer]}
        call = asyncio.create_task(AssistantTools(hone).refine(context, {"task": "Explain."}))
        await asyncio.to_thread(server.arrived.wait, TIMEOUT_S)
        call.cancel()
        await asyncio.sleep(0)
        server.let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert [it.route for it in server.asked] == [SUBMISSION, CANCEL]


class Listener:
    """An assistant that is told how far a call is."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def report_progress(self, _progress: float, message: str) -> None:
        self.told.append(message)


AT = f"GET /v1/refinements/{ID}"


async def test_a_text_that_is_not_stored_is_that_of_the_end_of_the_stream() -> None:
    context: Any = Listener()
    best = Best(iteration=1, path="iterations/1", score=0.91, sha256="0" * 64)
    last = ending().at
    erased = snapshot(draft=None).model_copy(update={"best": best, "erased_at": last})
    gone = json.dumps({"status": 409, "code": "not_stored", "title": "Gone", "detail": "gone"})
    with scripted_server() as server, ContractClient(server.url) as hone:
        server.answers |= {
            SUBMISSION: [CannedResponse(erased.model_dump_json())],
            f"{AT}/events": [CannedResponse(stream(*EVENTS, ending()), 200, "text/event-stream")],
            AT: [CannedResponse(erased.model_dump_json())],
            f"{AT}/iterations": [CannedResponse(gone, 409)],
        }
        tools = AssistantTools(hone)
        refined = await tools.refine(context, {"draft": "So.", "options": {"store": False}})
        later = await tools.get_refinement({"refinement_id": ID})
    assert (refined.draft, refined.score, context.told[-1]) == (
        "Short.\n", 0.91, "iterations/1: score 0.91, passed",
    )  # fmt: skip
    assert (later.draft, later.outcome) == (None, "passed")
