"""Every prompt leaves the client's own texts the room that the budget reckons with."""

import pytest

from app.contract.budget import PROMPT_BYTES
from workers.engine.prompts import critique, revise, write


@pytest.mark.parametrize("module", [critique, revise, write], ids=["critique", "revise", "write"])
def test_the_instructions_are_no_longer_than_is_reserved(module: object) -> None:
    system: str = vars(module)["SYSTEM"]
    assert 200 < len(system.encode()) < PROMPT_BYTES - 500
