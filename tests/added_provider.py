"""python -m tests.added_provider NAME REDIS_URL: a model provider that was just added works.

It is run in a copy of the repository to which the provider was added.
"""

import sys

import httpx
from pydantic import SecretStr

from app.contract.providers import BY_NAME
from app.settings import Settings
from tests.api.conftest import running


def main(name: str, redis_url: str) -> None:
    """Raise AssertionError unless it is offered, and admitted with its key only."""
    provider = BY_NAME[name]
    without_key = Settings(_env_file=None, redis_url=redis_url, port=0)
    with_key = without_key.model_copy(update={provider.api_key_setting: SecretStr("key-1")})
    request = {"task": "Say hello.", "models": {"generator": f"{name}:x", "critic": f"{name}:x"}}
    for settings, is_configured in ((without_key, False), (with_key, True)):
        with running(settings) as url, httpx.Client(base_url=url) as client:
            offers = {it["provider"]: it for it in client.get("/v1/models").json()["data"]}
            assert offers[name]["configured"] is is_configured
            answer = client.post("/v1/refinements", json=request)
            assert answer.status_code == (202 if is_configured else 422)
            if not is_configured:
                assert provider.key_variable in offers[name]["missing"]
                assert provider.key_variable in answer.json()["detail"]


if __name__ == "__main__":
    main(*sys.argv[1:])
