"""Submits, polls and reads with the client that openapi-python-client generated: `URL`."""

import sys

from hone_client import Client  # type: ignore[import-not-found]
from hone_client.api.journal import list_iterations  # type: ignore[import-not-found]
from hone_client.api.refinements import (  # type: ignore[import-not-found]
    get_refinement,
    list_refinements,
    submit_refinement,
)
from hone_client.models import RefinementRequest, Snapshot  # type: ignore[import-not-found]

ENDED = {"succeeded", "failed", "canceled"}

client = Client(base_url=sys.argv[1], raise_on_unexpected_status=True)
request = RefinementRequest(task="Say it plainly.", draft="It is what it is.", max_iterations=2)
snapshot = submit_refinement.sync(client=client, body=request, idempotency_key="once")
while snapshot.status not in ENDED:
    seen = f'"{snapshot.last_event}"'
    found = get_refinement.sync(snapshot.id, client=client, wait=10, if_none_match=seen)
    if isinstance(found, Snapshot):  # or else nothing is new
        snapshot = found
iterations = list_iterations.sync(snapshot.id, client=client).data
listed = [it.id for it in list_refinements.sync(client=client, limit=1).data]
assert listed == [snapshot.id]
assert snapshot.result.draft in {it.draft for it in iterations}
print(f"{snapshot.status} with {snapshot.result.score} after {len(iterations)} judged drafts")
