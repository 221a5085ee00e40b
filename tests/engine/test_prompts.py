"""Every prompt leaves the client's own texts the room that the budget reckons with."""

from inspect import getmodule
from types import ModuleType
from typing import get_args

import pytest

from app.contract.budget import PROMPT_BYTES
from workers.engine.briefs import Brief
from workers.engine.prompts import RENDERERS

MODULES = [module for it in RENDERERS.values() if (module := getmodule(it))]


def test_every_brief_can_be_put_into_words() -> None:
    assert set(RENDERERS) == set(get_args(Brief))


@pytest.mark.parametrize("module", MODULES, ids=lambda it: it.__name__.rpartition(".")[2])
def test_the_instructions_are_no_longer_than_is_reserved(module: ModuleType) -> None:
    system: str = vars(module)["SYSTEM"]
    assert 200 < len(system.encode()) < PROMPT_BYTES - 500
