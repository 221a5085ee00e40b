"""Headers that go with an answer."""

from fastapi import Request, Response

from app.contract.snapshot import Snapshot, SnapshotPage
from app.service import Accepted, News, StoredPage

RETRY_AFTER_S = 1


def accepted(response: Response, result: Accepted, wait_s: int | None) -> Snapshot:
    """202 and where to look; 200 when it has ended within the wait that was preferred."""
    snapshot = result.snapshot
    response.headers["Location"] = snapshot.links.self
    response.headers["ETag"] = etag(snapshot)
    if result.replayed:
        response.headers["Idempotency-Replayed"] = "true"
    if wait_s is not None:
        response.headers["Preference-Applied"] = f"wait={wait_s}"
    if wait_s is not None and snapshot.status.is_terminal:
        response.status_code = 200
    else:
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return snapshot


def shown(response: Response, news: News) -> Snapshot | Response:
    """200 with the snapshot, or 304 when it is the one that is known."""
    tag = etag(news.snapshot)
    if not news.is_new:
        return Response(status_code=304, headers={"ETag": tag})
    response.headers["ETag"] = tag
    return news.snapshot


def listed(request: Request, response: Response, page: SnapshotPage) -> SnapshotPage:
    """The page, and a link to the next."""
    if page.next_cursor is not None:
        response.headers["Link"] = _next(request, cursor=page.next_cursor)
    return page


def event_page(request: Request, page: StoredPage, after: int) -> Response:
    """Stored events as one page of JSON, without reading them."""
    last = page.events[-1].number if page.events else after
    data = b",".join(event.json for event in page.events)
    more = b"true" if page.has_more else b"false"
    content = b'{"data":[%b],"has_more":%b,"next_after":%d}' % (data, more, last)
    headers = {"Link": _next(request, after=last)} if page.has_more else None
    return Response(content, headers=headers, media_type="application/json")


def etag(snapshot: Snapshot) -> str:
    """The number of the last event: nothing in a snapshot changes without one."""
    return f'"{snapshot.last_event}"'


def _next(request: Request, **parameters: object) -> str:
    url = request.url.include_query_params(**parameters)
    return f'<{url.path}?{url.query}>; rel="next"'
