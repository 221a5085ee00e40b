"""The tools of an assistant, with a scripted server."""

import asyncio
import threading
from typing import Any

import pytest

from app.cli.contract_client import ContractClient
from hone_extras.mcp.mcp_server import AssistantTools
from tests.cli.scripted_refinement import ID, snapshot
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
