"""Strategies within strategies: what each of them needs is asked of the request as a whole."""

from typing import Any

import pytest
from pydantic import SecretStr

from app.contract.errors import InvalidRequest
from app.contract.requests import RefinementRequest
from app.service.admission import Admission, ModelRoles, called_seats
from app.settings import Settings

SETTINGS = Settings().model_copy(update={"openai_api_key": SecretStr("k")})
EDITED = {"generator": "offline:editor", "critic": "offline:editor"}
IN_TURN = {"kind": "nested", "order": "sequence"}
VERIFIED = {"kind": "stepwise", "stages": [
    {"name": "facts", "mode": "revise", "body": {"kind": "chain_of_verification"}},
]}  # fmt: skip
PANEL = {"panel": [{"name": "reader"}, {"name": "lawyer"}]}


def asked(**fields: Any) -> RefinementRequest:
    return RefinementRequest.model_validate({"draft": "Rough.", **fields})


@pytest.mark.parametrize(
    ("strategy", "why"),
    [
        (IN_TURN, "nested sums up what stands before a part"),
        (VERIFIED, "chain_of_verification asks and answers questions"),
        ({"kind": "nested", "body": VERIFIED}, "chain_of_verification asks and answers questions"),
    ],
)
async def test_what_only_a_language_model_can_do_is_refused_at_any_depth(
    strategy: dict[str, Any], why: str
) -> None:
    criteria = [{"name": "clarity"}]
    with pytest.raises(InvalidRequest, match=why):
        await Admission(ModelRoles(SETTINGS), ()).admit(
            asked(strategy=strategy, models=EDITED, criteria=criteria)
        )


def test_beside_a_panel_the_critic_plays_if_a_strategy_within_asks_it_more() -> None:
    assert "critic" in called_seats(asked(strategy=VERIFIED, critics=PANEL))
    assert "critic" not in called_seats(asked(strategy={"kind": "nested"}, critics=PANEL))
