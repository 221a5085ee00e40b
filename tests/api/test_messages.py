"""What is said of an invalid request: in words that say what is allowed, and once."""

import json
import re
from collections.abc import Iterator
from functools import cache
from inspect import isabstract
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from pydantic import BaseModel, ByteSize, TypeAdapter, ValidationError

from app.api.dependencies import only_parameters, parsed
from app.contract import Contract
from app.contract.errors import InvalidRequest
from app.contract.invalid_values import INVALID, sentence_of
from app.contract.patterns import IN_WORDS
from app.main import create_app
from app.settings import Settings
from tests.api.api_client import REQUEST, problem

OF_PYDANTIC = re.compile(
    r"Value error|[Ii]nput should|should (be|have|match)|Extra inputs|Field required"
    r"|dictionary|instance of|discriminator|tuple|\^|\[A-Z|\[a-z|\\S|\bNone\b|\bTrue\b"
)
FLAWS: tuple[Any, ...] = (
    *(
        None,
        True,
        -1,
        0,
        1.5,
        10**20,
        1e300,
        "",
        " ",
        "?!",
        "foo",
        "a b",
        "\u00e9\n",
        "3",
        "x" * 300,
    ),
    *([], [1], [""], ["?!", "?!"], [{}], [[]], [{"kind": "foo"}], {}, {"": 1}, {"a b!": "x"}),
    *({"kind": "foo"}, {"kind": 1}, {"name": 1}, {"url": "ftp://x"}, {"a": [[{}]]}),
)


def contracts(of: type[BaseModel] = Contract) -> Iterator[type[Any]]:
    """Every class of the contract."""
    for it in of.__subclasses__():
        is_of_clients = (
            it.__module__.startswith("app.contract") and "providers" not in it.__module__
        )
        if is_of_clients and not isabstract(it):
            yield it
        yield from contracts(it)


@cache
def refusals() -> list[tuple[type[Any], InvalidRequest]]:
    """What is said of objects with one wrong field, for every field, and of one too many."""
    return [(it, refused) for it in {*contracts()} for refused in refusals_of(it)]


def refusals_of(contract: type[Any]) -> Iterator[InvalidRequest]:
    names = [it.validation_alias or name for name, it in contract.model_fields.items()]
    bodies: list[Any] = [{f"{name}s": 1} for name in names]
    bodies += [{name: flaw} for name in names for flaw in FLAWS]
    for body in [[], {}, *bodies]:
        try:
            parsed(contract, json.dumps(body).encode())
        except InvalidRequest as refused:
            yield refused


def test_no_invalid_body_is_described_in_words_of_the_library() -> None:
    said = {
        (it.detail, contract.__name__) for contract, refused in refusals() for it in refused.errors
    }
    assert len(said) > 500
    assert [it for it in said if OF_PYDANTIC.search(it[0]) or INVALID in it[0]] == []


def test_no_sentence_about_a_body_is_repeated() -> None:
    repeated = [
        refused.detail
        for _, refused in refusals()
        for it in refused.errors
        if refused.detail.count(it.detail) > 1 and len(it.detail) > 20
    ]
    assert repeated == []


def patterns_in(document: Any) -> Iterator[str]:
    """Every pattern of a text in a JSON Schema."""
    if isinstance(document, dict):
        if document.get("in") == "header":  # these are read without the library
            return
        yield from (it for it in [document.get("pattern")] if isinstance(it, str))
    for it in document.values() if isinstance(document, dict) else document:
        if isinstance(it, dict | list):
            yield from patterns_in(it)


async def test_every_pattern_of_the_api_and_of_settings_has_words(api: httpx.AsyncClient) -> None:
    document = (await api.get("/openapi.json")).json()
    schemas = [*document["paths"].values(), *document["components"]["schemas"].values()]
    found = {*patterns_in(schemas), *patterns_in(Settings.model_json_schema())}
    found.discard(TypeAdapter(ByteSize).json_schema()["anyOf"][0]["pattern"])
    assert len(found) > 10
    assert found - IN_WORDS.keys() == set()


async def test_a_sentence_about_several_fields_is_said_once(api: httpx.AsyncClient) -> None:
    body = REQUEST | {"models": {"generator": "foo", "critic": "foo"}, "threshold": 7}
    refused = problem(await api.post("/v1/refinements", json=body), 422, "invalid_request")
    assert refused["detail"] == (
        "/threshold: must be at most 1; /models/generator, /models/critic: must be of the form"
        " `provider:name`, such as `openai:gpt-5-mini`"
    )
    pointers = [it["pointer"] for it in refused["errors"]]
    assert pointers == ["/threshold", "/models/generator", "/models/critic"]


async def test_more_than_three_sentences_are_in_the_list_of_errors(api: httpx.AsyncClient) -> None:
    body = {"task": 1, "draft": "", "threshold": 7, "max_iterations": 0, "feedback": 1}
    refused = problem(await api.post("/v1/refinements", json=body), 422, "invalid_request")
    assert refused["detail"].endswith("; 1 more error")
    assert len(refused["errors"]) == 5


@pytest.mark.parametrize(
    ("fields", "pointer", "meant"),
    [
        ({"treshold": 0.9}, "/treshold", "threshold"),
        ({"stop": {"max_token": 5}}, "/stop/max_token", "max_tokens"),
        ({"strategy": {"kind": "iterativ"}}, "/strategy", "iterative"),
        ({"strategy": {"kind": "iterative", "Nme": 1}}, "/strategy/Nme", ""),
        ({"validators": [{"kind": "lenght"}]}, "/validators/0", "length"),
        (
            {"validators": [{"kind": "length", "max_word": 1}]},
            "/validators/0/max_word",
            "max_words",
        ),
        (
            {"models": {"critic": {"model": "a:b", "Temprature": 0}}},
            "/models/critic/Temprature",
            "temperature",
        ),
        ({"criteria": [{"name": "a", "wieght": 1}]}, "/criteria/0/wieght", "weight"),
    ],
)
async def test_a_misspelt_name_is_answered_with_what_it_may_stand_for(
    api: httpx.AsyncClient, fields: dict[str, Any], pointer: str, meant: str
) -> None:
    refused = problem(
        await api.post("/v1/refinements", json=REQUEST | fields), 422, "invalid_request"
    )
    (error,) = refused["errors"]
    assert error["pointer"] == pointer
    assert f"did you mean `{meant}`?" in error["detail"] or not meant


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("refinements/nope", "nope is not the id of a refinement"),
        ("refinements/ref_01JD3Y3V3G5ZC1Q6E0M8W2R9TB/iterations/x", "x is not a whole number"),
        ("batches/nope", "nope is not the id of a batch"),
    ],
)
async def test_a_path_with_something_else_than_an_id_says_so(
    api: httpx.AsyncClient, path: str, words: str
) -> None:
    assert problem(await api.get(f"/v1/{path}"), 404, "not_found")["detail"] == words


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("refinements?batch=nope", "query batch: must be the id of a batch"),
        ("refinements?min_score=7&limit=x", "query limit: must be a whole number"),
        ("refinements?status=done", "query status: must be `queued`, `running`"),
        ("refinements?statsu=done", "query statsu: is not a parameter; did you mean `status`?"),
        ("statistics?of=usage&form=csv", "query form: is not a parameter"),
        ("refinements?submitted_from=now", "query submitted_from: must be a time with an offset"),
        (
            "statistics?of=insights&since=yesterday",
            "query since: must be a date, such as 2026-01-31",
        ),
        (
            "statistics?of=insights&since=2026-99-99",
            "query since: must be a date, such as 2026-01-31",
        ),
        ("statistics?of=usage&group_by=x", "query group_by: must be one of"),
    ],
)
async def test_an_invalid_query_is_described_in_words(
    api: httpx.AsyncClient, query: str, words: str
) -> None:
    refused = problem(await api.get(f"/v1/{query}"), 422, "invalid_request")
    assert words in refused["detail"]
    assert not OF_PYDANTIC.search(refused["detail"])


def test_every_operation_refuses_parameters_that_it_lacks() -> None:
    routes = [it for it in create_app(Settings()).routes if isinstance(it, APIRoute)]
    ignoring = {
        it.path
        for it in routes
        if it.path.startswith("/v1/")
        and only_parameters not in [inner.call for inner in it.dependant.dependencies]
    }
    assert ignoring == set()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (
            "/ref_01JD3Y3V3G5ZC1Q6E0M8W2R9TB/continue?pth=iterations/0",
            "query pth: is not a parameter; did you mean",
        ),
        ("?preset=x", "query preset: is not a parameter"),
    ],
)
async def test_a_parameter_that_a_submission_lacks_is_refused(
    api: httpx.AsyncClient, path: str, words: str
) -> None:
    sent = await api.post(f"/v1/refinements{path}", json={"draft": "A."})
    assert words in problem(sent, 422, "invalid_request")["detail"]


def test_an_invalid_setting_is_described_in_words() -> None:
    said = list[str]()
    for name in Settings.model_fields:
        for flaw in ("", "-1", "?!", "1e999", "a b", "{}", "nan"):
            try:
                Settings.model_validate({name: flaw})
            except ValidationError as invalid:
                said += [
                    sentence_of(it) for it in invalid.errors() if it["type"] != "none_required"
                ]
    assert len(said) > 100
    assert [it for it in said if OF_PYDANTIC.search(it) or INVALID in it] == []
