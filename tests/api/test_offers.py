"""What the server says about itself."""

import json
import re
from collections.abc import Iterator
from contextlib import aclosing
from functools import cache
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from pydantic import SecretStr, TypeAdapter

from app.api import examples
from app.contract.access import KeyRequest, Quotas, Rotation, TokenRequest
from app.contract.events import Event, EventPage, EventType
from app.contract.limits import LimitsChange
from app.contract.offers import ModelLimit
from app.contract.overlays import PartialRequest
from app.contract.providers import BY_NAME, PROVIDERS
from app.contract.ratings import RatingRequest
from app.contract.requests import RefinementRequest
from app.contract.reviews import ReviewDecision
from app.contract.snapshot import Snapshot
from app.contract.statistics import InsightList
from app.contract.strategies import STRATEGIES, AnyStrategy
from app.contract.validators import VALIDATORS
from app.main import create_app
from app.service.admission import ModelRoles
from app.settings import Settings
from app.store import WorkerStore
from app.store.rate_limits import PermitReport, SharedLimits, StoredLimit
from app.store.redis.committer import Committer
from app.store.redis.connection import worker_client
from tests.validators.validator_page import sections


@pytest.mark.parametrize(
    ("path", "union", "kinds"),
    [
        ("strategies", AnyStrategy, set(STRATEGIES)),
    ],
)
async def test_every_kind_is_offered_with_a_schema_that_its_defaults_satisfy(
    api: httpx.AsyncClient, path: str, union: Any, kinds: set[str]
) -> None:
    offers = (await api.get(f"/v1/{path}")).json()["data"]
    assert {offer["kind"] for offer in offers} == kinds
    for offer in offers:
        Draft202012Validator.check_schema(offer["schema"])
        request = {**offer["defaults"], "kind": offer["kind"]}
        Draft202012Validator(offer["schema"]).validate(request)
        TypeAdapter(union).validate_python(request)


async def test_every_validator_is_offered_with_a_schema_that_its_example_satisfies(
    api: httpx.AsyncClient,
) -> None:
    offers = (await api.get("/v1/validators")).json()["data"]
    assert [offer["kind"] for offer in offers] == list(VALIDATORS)
    for offer in offers:
        Draft202012Validator.check_schema(offer["schema"])
        request = {**offer["defaults"], **sections()[offer["kind"]].example}
        Draft202012Validator(offer["schema"]).validate(request)
        VALIDATORS[offer["kind"]].model_validate(request)


async def test_the_models_say_what_has_to_be_set(api: httpx.AsyncClient) -> None:
    models = (await api.get("/v1/models")).json()
    offers = {offer["provider"]: offer for offer in models["data"]}
    assert models["default"] == "offline:editor"
    assert list(offers) == [it.name for it in PROVIDERS if it.is_offered]
    for provider in PROVIDERS:
        if provider.is_offered:
            offer = offers[provider.name]
            assert (offer["missing"] is None) is not provider.needs_key
            assert offer["names"] == [f"{provider.name}:{model}" for model in provider.models]
            assert not provider.needs_key or provider.key_variable in offer["missing"]
    assert offers["offline"]["names"] == ["offline:editor"]
    assert "OPENAI_API_KEY" in offers["openai"]["missing"]
    assert offers["anthropic"]["priced"]


async def test_a_server_without_workers_is_ready_with_a_warning(
    api: httpx.AsyncClient, worker: WorkerStore
) -> None:
    assert (await api.get("/healthz")).json() == {"status": "ok"}
    ready = (await api.get("/readyz")).json()
    assert (ready["status"], ready["workers"], len(ready["warnings"])) == ("ready", 0, 1)
    await worker.renew({})
    assert (await api.get("/readyz")).json() == {
        "status": "ready",
        "workers": 1,
        "waiting": 0,
        "warnings": [],
    }


async def test_the_page_needs_nothing_from_elsewhere(api: httpx.AsyncClient) -> None:
    page = (await api.get("/docs")).text
    assets = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(assets) == 4
    for asset in assets:
        assert asset.startswith("docs/")
        assert (await api.get(f"/{asset}")).status_code == 200
    assert not re.findall(r"https?://", page)


@cache
def document() -> dict[str, Any]:
    return create_app(Settings()).openapi()


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, item in document()["paths"].items()
        for method, operation in item.items()
    ]


def test_every_operation_is_named_described_and_refuses_with_problems() -> None:
    assert document()["openapi"] == "3.1.0"
    for _, _, operation in operations():
        assert re.fullmatch(r"[a-z]+[A-Z]\w+", operation["operationId"])
        assert operation["description"]
        for status, response in operation["responses"].items():
            assert response["description"]
            if int(status) >= 400:
                assert response["content"].keys() == {"application/problem+json"}


def test_every_reference_of_the_document_leads_somewhere() -> None:
    made = document()
    references = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(made)))
    assert references <= made["components"]["schemas"].keys()


def test_every_example_is_what_its_contract_reads() -> None:
    for request in examples.REQUESTS.values():
        RefinementRequest.model_validate_json(json.dumps(request), strict=True)
    for review in examples.REVIEWS.values():
        ReviewDecision.model_validate(review)
    for rating in examples.RATINGS.values():
        RatingRequest.model_validate(rating)
    for continuation in examples.CONTINUATIONS.values():
        PartialRequest.model_validate(continuation)
    for change in examples.CHANGES.values():
        LimitsChange.model_validate_json(json.dumps(change), strict=True)
    for key in examples.KEYS.values():
        KeyRequest.model_validate_json(json.dumps(key), strict=True)
    for rotation in examples.ROTATIONS.values():
        Rotation.model_validate(rotation)
    for token in examples.TOKENS.values():
        TokenRequest.model_validate(token)
    for quotas in examples.QUOTAS.values():
        Quotas.model_validate_json(json.dumps(quotas), strict=True)
    Snapshot.model_validate(examples.SNAPSHOT)
    Event.model_validate(examples.EVENT)
    EventPage.model_validate(examples.EVENT_PAGE)
    InsightList.model_validate(examples.INSIGHTS)


def media_types() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every JSON body of the document, and where it stands."""
    for path, method, operation in operations():
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        for each in bodies:
            for name, content in each.get("content", {}).items():
                if name.endswith("json"):
                    yield f"{method} {path}", content


def test_every_example_of_the_document_conforms_to_its_schema() -> None:
    components = document()["components"]
    seen = 0
    for place, content in media_types():
        schema = {**content["schema"], "components": components}
        for example in content.get("examples", {}).values():
            name = example.get("$ref", "").rpartition("/")[2]
            value = components["examples"][name]["value"] if name else example["value"]
            errors = [it.message for it in Draft202012Validator(schema).iter_errors(value)]
            assert not errors, place
            seen += 1
    assert seen > 100


def test_an_event_of_each_type_has_a_schema_of_its_own() -> None:
    schemas = document()["components"]["schemas"]
    mapping = schemas["Event"]["discriminator"]["mapping"]
    assert set(mapping) == {kind.value for kind in EventType}
    for kind, reference in mapping.items():
        properties = schemas[reference.rpartition("/")[2]]["properties"]
        assert properties["type"]["const"] == kind
        assert properties["data"].keys() == {"$ref"}


def test_generators_of_clients_understand_the_document() -> None:
    """They drop fields with objects as defaults, and list parameters of headers."""
    made = document()
    assert made["servers"] == [{"url": "/"}]
    tags = {tag["name"] for tag in made["tags"] if tag["description"]}
    for _, _, operation in operations():
        assert set(operation["tags"]) <= tags
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "header":
                assert parameter["schema"]["type"] == "string"
    for schema in made["components"]["schemas"].values():
        for property_ in schema.get("properties", {}).values():
            assert "type" in property_ or not isinstance(property_.get("default"), dict)


async def report(
    redis_url: str, settings: Settings, report: PermitReport, model: str = "openai:x"
) -> None:
    """Report as a worker that calls a model with the key of these settings."""
    fingerprint = settings.fingerprint_of(BY_NAME["openai"])
    async with worker_client(redis_url) as client, aclosing(Committer(client)) as committer:
        exchange = SharedLimits(committer, "worker-1")
        await exchange.exchange(f"{model}@{fingerprint}", f"openai@{fingerprint}", report)


async def test_limits_in_force_and_open_breakers_are_shown(
    api: httpx.AsyncClient, redis_url: str, settings: Settings
) -> None:
    refused = PermitReport(number=1, in_flight=3, refused=1, recent=20, was_free=True)
    await report(redis_url, settings, refused)
    wrong_key = PermitReport(number=2, in_flight=2, key_reason="unauthorized", detail="wrong key")
    await report(redis_url, settings, wrong_key)
    offers = (await api.get("/v1/models")).json()["data"]
    limits = {it["name"]: it for offer in offers for it in offer["limits"]}
    assert limits["openai:x"]["calls_per_s"] == pytest.approx(18, abs=0.1)
    assert limits["openai:x"]["in_flight"] == 2
    assert limits["openai"]["breaker"]["reason"] == "unauthorized"
    (warning,) = (
        it for it in (await api.get("/readyz")).json()["warnings"] if it.startswith("openai")
    )
    assert re.fullmatch(
        r"openai takes no calls since \S+Z: it refused the API key: wrong key", warning
    )


async def test_the_breaker_of_a_model_is_not_shown_once_its_provider_is_known_to_work(
    api: httpx.AsyncClient, redis_url: str, settings: Settings
) -> None:
    away = PermitReport(number=1, bad=5, bad_reason="unreachable", detail="reset")
    await report(redis_url, settings, away)
    assert any("openai:x" in it for it in (await api.get("/readyz")).json()["warnings"])
    await report(redis_url, settings, PermitReport(number=2, ok=1, answered=1), "openai:y")
    assert not any("openai" in it for it in (await api.get("/readyz")).json()["warnings"])


def test_caps_of_settings_are_shown_with_what_was_learnt(settings: Settings) -> None:
    capped = settings.model_copy(
        update={"limits": {"openai:x": {"in_flight": 5.0}, "openai:*": {"requests": 60.0}}}
    )
    openai = BY_NAME["openai"]
    learnt = ModelLimit(name="openai:x", calls_per_s=3.0)
    stored = StoredLimit(capped.fingerprint_of(openai), learnt)
    every, one = ModelRoles(capped).limits_of(openai, [stored])
    assert (every.name, every.caps, every.calls_per_s) == ("openai:*", {"requests": 60.0}, None)
    assert (one.name, one.caps, one.calls_per_s) == ("openai:x", {"in_flight": 5.0}, 3.0)


async def test_the_breaker_of_another_key_is_not_shown(
    api: httpx.AsyncClient, redis_url: str, settings: Settings
) -> None:
    other = settings.model_copy(update={"openai_api_key": SecretStr("another")})
    wrong_key = PermitReport(number=1, key_reason="unauthorized", detail="wrong key")
    await report(redis_url, other, wrong_key)
    offers = (await api.get("/v1/models")).json()["data"]
    assert not any(offer["limits"] for offer in offers)
