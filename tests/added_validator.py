"""A validator that was just added works; ADDED is its kind.

pytest runs this in a copy of the repository to which the validator was added.
"""

import os

import httpx

from app.contract.validators import VALIDATORS
from app.settings import Settings
from tests.api.conftest import running
from tests.validators.validator_page import sections
from tests.waiting import TIMEOUT_S
from workers.validators.running import compile_validators

KIND = os.environ["ADDED"]
SECTION = sections()[KIND]


def test_it_is_offered_documented_and_admitted(redis_url: str) -> None:
    with (
        running(Settings(_env_file=None, redis_url=redis_url, port=0)) as url,
        httpx.Client(base_url=url, timeout=TIMEOUT_S) as client,
    ):
        offered = client.get("/v1/validators").json()["data"]
        assert KIND in [it["kind"] for it in offered]
        schemas = client.get("/openapi.json").json()["components"]["schemas"]
        assert VALIDATORS[KIND].__name__ in schemas
        request = {"draft": SECTION.failing, "validators": [SECTION.example]}
        assert client.post("/v1/refinements", json=request).status_code == 202
        request["validators"] = [{**SECTION.example, "unknown": 1}]
        assert client.post("/v1/refinements", json=request).status_code == 422


async def test_it_checks_a_draft() -> None:
    validator = VALIDATORS[KIND].model_validate(SECTION.example)
    findings = await compile_validators([validator]).run(SECTION.failing)
    assert [it.kind for it in findings] == [KIND]
