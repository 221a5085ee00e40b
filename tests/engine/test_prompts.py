"""Every prompt leaves the client's own texts the room that the budget reckons with."""

from importlib import import_module
from inspect import isabstract
from pkgutil import walk_packages
from types import ModuleType

import pytest

import workers.engine
from app.contract.budget import PROMPT_BYTES
from workers.engine.prompt_requests import PromptRequest
from workers.engine.prompts import HASHED_SYSTEM
from workers.engine.prompts.judging import ADVERSARIAL, EXAMPLES, PERSPECTIVE


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
WORDS: dict[str, str] = {
    name: vars(module)[name.removesuffix("_VERSION")]
    for module in ASKING
    for name in vars(module)
    if name.endswith("_VERSION")
}


def test_every_prompt_has_a_version_and_words() -> None:
    assert len(WORDS) == sum(len(requests_of(module)) for module in ASKING) > 0


@pytest.mark.parametrize("name", WORDS)
def test_the_instructions_are_no_longer_than_is_reserved(name: str) -> None:
    around = len(HASHED_SYSTEM) + max(map(len, (ADVERSARIAL, PERSPECTIVE))) + len(EXAMPLES)
    assert 200 < len(WORDS[name].encode()) + around < PROMPT_BYTES - 300
