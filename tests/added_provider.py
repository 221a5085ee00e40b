"""A model provider that was just added works; ADDED is its name.

pytest runs this in a copy of the repository to which the provider was added.
"""

import os

import httpx
import pytest
from pydantic import SecretStr

from app.contract.providers import BY_NAME
from app.settings import Settings
from tests.api.conftest import running
from tests.waiting import TIMEOUT_S

NAME = os.environ["ADDED"]
PROVIDER = BY_NAME[NAME]
REQUEST = {"task": "Say hello.", "models": {"generator": f"{NAME}:x", "critic": f"{NAME}:x"}}


@pytest.mark.parametrize(("key", "status"), [(None, 422), (SecretStr("key-1"), 202)])
def test_it_is_offered_and_admitted_with_its_key_only(
    key: SecretStr | None, status: int, redis_url: str
) -> None:
    settings = Settings(_env_file=None, redis_url=redis_url, port=0)
    settings = settings.model_copy(update={PROVIDER.api_key_setting: key})
    with running(settings) as url, httpx.Client(base_url=url, timeout=TIMEOUT_S) as client:
        offers = {it["provider"]: it for it in client.get("/v1/models").json()["data"]}
        assert offers[NAME]["configured"] is bool(key)
        assert key or PROVIDER.key_variable in offers[NAME]["missing"]
        answer = client.post("/v1/refinements", json=REQUEST)
        assert answer.status_code == status
        assert key or PROVIDER.key_variable in answer.json()["detail"]
