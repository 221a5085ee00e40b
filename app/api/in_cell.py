"""An ASGI layer that has each request answered in the cell of what it is about.

It is there only where there are several cells.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access.callers import Caller
from app.api.access import MANAGED, SAFE, routed_path
from app.api.dependencies import idempotency_key
from app.api.problems import OPENAI, response_of
from app.contract.access import OPERATOR
from app.contract.errors import HoneError, MalformedHeader
from app.store.cell_records import missing
from app.store.cells import Cells

MEMBERS = "members"
"""In the state of the server: what requests in each cell share, by its number."""

AWAY = b"hone-cells-away"
RECORD = re.compile(r"/v1/(?:refinements|batches)/((?:ref|batch)_[0-9A-HJKMNP-TV-Z]{26})(?:/.*)?")
SUBMISSION = re.compile(rf"/v1/(?:refinements|estimates|batches)|{OPENAI}/.*")
INSTALLATION = re.compile(r"/v1/.*|/console/session")

Members = Sequence[Mapping[str, object]]


def enter_cell_of(state: dict[str, Any], record_id: str) -> None:
    """Have the rest of a request go on in the cell of a refinement; raise Unavailable."""
    cells: Cells = state["cells"]
    if not cells.is_one:
        state.update(state[MEMBERS][cells.of(record_id)])


class InCell:
    """Gives each request the store, the service and the rest of one cell.

    That is the cell of the id in the path, for a submission the first one of its tenant, otherwise
    cell 0. After a change in cell 0 the response waits for the copies. A header names the cells
    that were away when all were asked.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state, path = scope["state"], routed_path(scope)
        cells: Cells = state["cells"]
        caller: Caller | None = state.get("caller")
        is_change = False
        try:
            if found := RECORD.fullmatch(path):
                enter_cell_of(state, found[1])
            elif scope["method"] == "POST" and caller is not None and SUBMISSION.fullmatch(path):
                number = self._first_home(cells, caller, scope)
                state.update(state[MEMBERS][number] | {"service": state["service"]})
            elif scope["method"] in SAFE:
                state["store"] = cells.stores[cells.readable]
            else:
                is_change = INSTALLATION.fullmatch(path) is not None
        except HoneError as error:
            await response_of(error, scope)(scope, receive, send)
            return
        gone = set[int]()
        missing.set(gone)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                if is_change and message["status"] < 400:
                    own = caller.tenant if caller else OPERATOR
                    await cells.changed([*{own, state.get(MANAGED, own)}])
                if gone:
                    named = ",".join(map(str, sorted(gone))).encode()
                    message["headers"] = [*message["headers"], (AWAY, named)]
            await send(message)

        await self._app(scope, receive, answer)

    @staticmethod
    def _first_home(cells: Cells, caller: Caller, scope: Scope) -> int:
        key = None
        with suppress(MalformedHeader):  # the route says so
            key = idempotency_key(Headers(scope=scope).get("idempotency-key"))
        number = cells.homes_of(caller.tenant, key)[0]
        cells.require_checked(number)
        return number
