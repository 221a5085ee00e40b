"""The plain forms of the hot routes answer as FastAPI answers for the declared ones."""

from typing import Any

import httpx

from app.api import routes
from app.contract.snapshot import Snapshot
from app.main import create_app
from app.settings import Settings
from tests.api.api_client import submitted
from tests.api.conftest import running
from tests.waiting import TIMEOUT_S

UNKNOWN = "ref_01JD3Y3V3G5ZC1Q6E0M8W2R9TB"
AS_JSON = {"accept": "application/json"}
LOOKS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("GET", "{ref}", {}),
    ("HEAD", "{ref}", {}),
    ("GET", "{ref}", {"if-none-match": '"1"'}),
    ("GET", "{ref}", {"if-none-match": '"x", W/"1"'}),
    ("GET", "{ref}", {"if-none-match": "*" * 3_000}),
    ("GET", "/v1/refinements/nonsense", {}),
    ("GET", f"/v1/refinements/{UNKNOWN}", {}),
    ("GET", f"/v1/refinements/{UNKNOWN}%0A", {}),
    ("GET", "{ref}/events", AS_JSON),
    ("HEAD", "{ref}/events", AS_JSON),
    ("GET", "{ref}/events", AS_JSON | {"last-event-id": "1"}),
    ("GET", "{ref}/events", AS_JSON | {"last-event-id": "x"}),
    ("GET", "{ref}/events", {"accept": "text/html"}),
    ("GET", "/v1/refinements/nonsense/events", AS_JSON),
    ("GET", f"/v1/refinements/{UNKNOWN}/events", {}),
)
SUBMISSIONS: tuple[tuple[bytes, dict[str, str]], ...] = (
    (b'{"draft": "A text."}', {}),
    (b'{"draft": "A text."}', {"idempotency-key": "x" * 300}),
    (b'{"draft": "A text."}', {"prefer": "wait=0"}),
    (b'{"draft": "A text."}', {"content-type": "text/plain"}),
    (b"{}", {}),
    (b"{", {}),
)


def told(answer: httpx.Response) -> tuple[int, dict[str, str], bytes]:
    varying = {"date", "x-request-id"}
    headers = {name: it for name, it in answer.headers.items() if name not in varying}
    return answer.status_code, headers, answer.content


async def test_a_look_is_answered_as_one_with_a_query_that_says_nothing(
    api: httpx.AsyncClient,
) -> None:
    ref = f"/v1/refinements/{await submitted(api)}"
    for method, path, headers in LOOKS:
        url = path.format(ref=ref)
        plain = await api.request(method, url, headers=headers)
        declared = await api.request(method, f"{url}?&", headers=headers)
        assert told(plain) == told(declared), (method, path, headers)


async def test_a_submission_is_answered_as_by_the_declared_route(
    settings: Settings, redis_url: str
) -> None:
    app, plain_path, declared_path = create_app(settings), "/v1/refinements", "/v1/declared"
    how: dict[str, Any] = {"methods": ["POST"], "status_code": 202, "response_model": Snapshot}
    app.add_api_route(declared_path, routes.submit, **how)  # by a route without plain forms
    with running(settings, app) as url:
        async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as client:
            for body, headers in SUBMISSIONS:
                sent = {"content-type": "application/json"} | headers
                plain = await client.post(plain_path, content=body, headers=sent)
                declared = await client.post(declared_path, content=body, headers=sent)
                compare(plain, declared)


def compare(plain: httpx.Response, declared: httpx.Response) -> None:
    assert plain.status_code == declared.status_code
    assert plain.headers.keys() == declared.headers.keys()
    assert plain.json().keys() == declared.json().keys()
