"""Validators and tools that need a setting are refused where it is off."""

from typing import Any

import httpx
import pytest


async def test_tools_are_refused_where_calls_cannot_be_signed(api: httpx.AsyncClient) -> None:
    tool = {"name": "a", "description": "b", "url": "https://example.com", "parameters": {}}
    request = {"task": "Go.", "strategy": {"kind": "plan_execute"}, "tools": [tool]}
    answer = await api.post("/v1/refinements", json=request)
    assert answer.status_code == 422
    errors = {it["pointer"]: it["detail"] for it in answer.json()["errors"]}
    assert "HONE_SECRET_KEY" in errors["/tools"]
    other = {**request, "strategy": {"kind": "iterative"}}
    answer = await api.post("/v1/refinements", json=other)
    assert answer.status_code == 422
    assert "supported only by the strategy plan_execute" in answer.text


@pytest.mark.parametrize(
    ("validator", "setting"),
    [
        ({"kind": "python_tests", "tests": "def test(): ..."}, "HONE_PYTHON_TESTS"),
        ({"kind": "python_cases", "cases": [{"input": "", "expected": ""}]}, "HONE_PYTHON_TESTS"),
        ({"kind": "http", "url": "https://example.com"}, "HONE_SECRET_KEY"),
    ],
)
async def test_a_validator_that_is_off_is_refused_with_the_setting_it_needs(
    api: httpx.AsyncClient, validator: dict[str, Any], setting: str
) -> None:
    validators = [{"kind": "length", "max_words": 9}, validator]
    answer = await api.post("/v1/refinements", json={"draft": "Text.", "validators": validators})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == "/validators/1/kind"
    assert setting in error["detail"]
