"""Every refusal is a problem document, and no body is a defect."""

import json
import re
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examined
from hypothesis import strategies as st

from app.api.openapi import KINDS, promise_of
from app.contract.errors import HoneError, Internal
from app.main import create_app
from app.settings import Settings
from tests.api.api_client import REQUEST, problem
from tests.api.conftest import running
from tests.waiting import TIMEOUT_S

JSON = {"Content-Type": "application/json"}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        "task",
        "draft",
        "context",
        "criteria",
        "strategy",
        "threshold",
        "stop",
        "validators",
        "models",
    ]
)
MUTATED = st.dictionaries(FIELDS, VALUES, min_size=1, max_size=3).map(
    lambda fields: json.dumps({**REQUEST, **fields}).encode()
)
BODIES = st.binary(max_size=200) | VALUES.map(json.dumps).map(str.encode) | MUTATED


def test_no_body_is_a_defect(server: str, redis_url: str) -> None:
    with httpx.Client(base_url=server, timeout=TIMEOUT_S) as client:

        @examined(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
        @given(BODIES)
        def sent(body: bytes) -> None:
            response = client.post("/v1/refinements", content=body, headers=JSON)
            if response.status_code != 202:
                assert problem(response, 422, "invalid_request")["errors"]

        sent()


@pytest.mark.parametrize("path", ["/v1", "/v1/refinements/", "/v2/refinements", "/docs/x", "/%ff"])
async def test_an_unknown_address_is_a_problem(api: httpx.AsyncClient, path: str) -> None:
    problem(await api.get(path), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", "/v1/refinements"), ("DELETE", "/healthz"), ("TRACE", "/v1/models")],
)
async def test_a_wrong_method_is_a_problem_that_says_which_are_right(
    api: httpx.AsyncClient, method: str, path: str
) -> None:
    response = await api.request(method, path)
    problem(response, 405, "method_not_allowed")
    assert response.headers["allow"]


async def test_a_problem_names_the_request_it_is_about(api: httpx.AsyncClient) -> None:
    found = problem(await api.get("/v1/refinements/x"), 404, "not_found")
    assert found["instance"] == "/v1/refinements/x"


def test_a_defect_is_a_problem_that_gives_nothing_away(settings: Settings) -> None:
    app = create_app(settings)

    @app.get("/defect")
    async def defect() -> None:
        raise RuntimeError("secret")

    with running(settings, app) as url:
        response = httpx.get(f"{url}/defect", timeout=TIMEOUT_S)
    assert "secret" not in response.text
    problem(response, 500, "internal")


def test_an_internal_error_with_a_detail_is_logged_with_its_cause(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    app = create_app(settings)

    @app.get("/defect")
    async def defect() -> None:
        raise Internal("the strategy does not count") from RuntimeError("secret")

    with running(settings, app) as url:
        response = httpx.get(f"{url}/defect", timeout=TIMEOUT_S)
    assert problem(response, 500, "internal")["detail"] == "the strategy does not count"
    assert "RuntimeError: secret" in caplog.text


@pytest.mark.parametrize("values", [{"model": "nobody:x"}, {"model": "openai:x"}, {"model": "x"}])
def test_a_default_model_that_cannot_be_called_is_noticed_at_the_start(
    settings: Settings, values: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"HONE_MODEL|model"):
        create_app(settings.model_copy(update=values))


async def test_the_type_of_a_problem_leads_to_its_cause_and_what_to_do(
    api: httpx.AsyncClient,
) -> None:
    leads_to = (await api.get("/v1/nothing")).json()["type"]
    assert leads_to == "/docs/errors#not_found"
    page = await api.get(leads_to)
    assert "default-src 'none'" in page.headers["content-security-policy"]
    sections = re.findall(r'<section id="(\w+)">.*?<p>(.+?)</p><p>(.+?)</p>', page.text)
    assert [code for code, *_ in sections] == [kind.code for kind in KINDS]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_every_error_has_a_cause_and_says_what_to_do(kind: type[HoneError]) -> None:
    assert promise_of(kind)
    assert kind.fix
