"""Every prompt leaves the client's own texts the room that the budget reckons with."""

from inspect import getmodule
from typing import get_args

import pytest

from app.contract.budget import PROMPT_BYTES
from workers.engine.prompt_requests import PromptRequest
from workers.engine.prompts import RENDERERS

INSTRUCTIONS: dict[str, str] = {
    name: text
    for it in RENDERERS.values()
    for name, text in vars(getmodule(it)).items()
    if name.endswith("_SYSTEM")
}


def test_every_brief_can_be_put_into_words() -> None:
    assert set(RENDERERS) == set(get_args(PromptRequest))


def test_every_prompt_has_instructions() -> None:
    assert len(INSTRUCTIONS) == len(RENDERERS)


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_the_instructions_are_no_longer_than_is_reserved(name: str) -> None:
    assert 200 < len(INSTRUCTIONS[name].encode()) < PROMPT_BYTES - 500
