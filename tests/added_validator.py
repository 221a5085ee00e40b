"""python -m tests.added_validator KIND REDIS_URL: a validator that was just added works.

It is run in a copy of the repository to which the validator was added.
"""

import asyncio
import sys

import httpx

from app.contract.validators import VALIDATORS
from app.settings import Settings
from tests.api.conftest import running
from tests.validators.validator_page import sections
from workers.validators import compile_validators


def main(kind: str, redis_url: str) -> None:
    """Raise AssertionError unless it is offered, documented, admitted and checked."""
    section = sections()[kind]
    with (
        running(Settings(_env_file=None, redis_url=redis_url, port=0)) as url,
        httpx.Client(base_url=url) as client,
    ):
        offered = client.get("/v1/validators").json()["data"]
        assert kind in [it["kind"] for it in offered]
        schemas = client.get("/openapi.json").json()["components"]["schemas"]
        assert VALIDATORS[kind].__name__ in schemas
        request = {"draft": section.failing, "validators": [section.example]}
        assert client.post("/v1/refinements", json=request).status_code == 202
        request["validators"] = [{**section.example, "unknown": 1}]
        assert client.post("/v1/refinements", json=request).status_code == 422
    validator = VALIDATORS[kind].model_validate(section.example)
    for padding in ("", " " * 100_000):  # the check is quick, or runs in the check process
        checks = compile_validators([validator])
        assert [it.kind for it in asyncio.run(checks.run(section.failing + padding))] == [kind]


if __name__ == "__main__":
    main(*sys.argv[1:])
