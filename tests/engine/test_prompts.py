"""Every prompt leaves the client's own texts the room that the budget reckons with."""

from importlib import import_module
from inspect import isabstract
from pkgutil import walk_packages
from types import ModuleType

import pytest

import workers.engine
from app.contract.budget import PROMPT_BYTES
from workers.engine.prompt_requests import PromptRequest


def requests_of(module: ModuleType) -> list[type[PromptRequest]]:
    return [
        it
        for it in vars(module).values()
        if isinstance(it, type)
        and issubclass(it, PromptRequest)
        and it.__module__ == module.__name__
        and not isabstract(it)
    ]


NAMES = [it.name for it in walk_packages(workers.engine.__path__, "workers.engine.")]
ASKING = [module for module in map(import_module, NAMES) if requests_of(module)]
INSTRUCTIONS: dict[str, str] = {
    name: text
    for module in ASKING
    for name, text in vars(module).items()
    if name.endswith("_SYSTEM")
}


def test_every_prompt_has_instructions() -> None:
    assert len(INSTRUCTIONS) == sum(len(requests_of(module)) for module in ASKING) > 0


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_the_instructions_are_no_longer_than_is_reserved(name: str) -> None:
    assert 200 < len(INSTRUCTIONS[name].encode()) < PROMPT_BYTES - 500
