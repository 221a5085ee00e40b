"""Validators that a server runs only when it is told to are refused where it is not."""

from typing import Any

import httpx
import pytest


@pytest.mark.parametrize(
    ("validator", "setting"),
    [
        ({"kind": "python_tests", "tests": "def test(): ..."}, "HONE_PYTHON_TESTS"),
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
