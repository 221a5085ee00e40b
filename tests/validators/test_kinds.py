"""Every kind a request can name is checked."""

from typing import get_args

import pytest

from app.contract.validators import AnyValidator
from workers.validators.kinds import check_of

UNION, _ = get_args(AnyValidator)
KINDS = [get_args(each.model_fields["kind"].annotation)[0] for each in get_args(UNION)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_of_its_name_checks_it(kind: str) -> None:
    assert check_of(kind).__name__ == f"check_{kind}"
