"""Query parameters of lists."""

from collections.abc import Mapping
from typing import Annotated

from fastapi import Depends, Query, Request

from app.api.dependencies import Absent
from app.contract.errors import MalformedHeader
from app.contract.status import Status

PREFIX = "metadata."
KNOWN = {"status", "limit", "cursor"}
MAX_PAIRS = 16


async def _metadata(request: Request) -> Mapping[str, str]:
    """A parameter that is not known is refused: what it was to leave out would be listed."""
    pairs: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name.startswith(PREFIX) and pairs.setdefault(name.removeprefix(PREFIX), value) == value:
            continue
        if name not in KNOWN:
            raise MalformedHeader(f"{name[:100]} is no parameter here, or is given twice")
    if len(pairs) > MAX_PAIRS:
        raise MalformedHeader(f"at most {MAX_PAIRS} metadata pairs can be asked for")
    return pairs


Metadata = Annotated[Mapping[str, str], Depends(_metadata)]
WithStatus = Annotated[Status | Absent, Query(alias="status", description="Only these.")]
Cursor = Annotated[
    str | Absent, Query(max_length=500, description="The `next_cursor` of the page before.")
]
Limit = Annotated[int, Query(ge=1, le=100, description="Refinements on a page.")]
EventLimit = Annotated[int, Query(ge=1, le=100, description="Events on a page of JSON.")]
