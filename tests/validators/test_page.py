"""The page on validators explains every kind with an example that works as it says."""

import pytest

from app.contract.requests import RefinementRequest
from app.contract.validators import VALIDATORS
from tests.validators import violations
from tests.validators.validator_page import introduction, sections

SECTIONS = sections()


def test_the_page_has_a_section_for_each_kind() -> None:
    assert SECTIONS.keys() == VALIDATORS.keys()


def test_the_request_on_the_page_is_understood() -> None:
    assert RefinementRequest.model_validate(introduction()).validators


@pytest.mark.parametrize("kind", VALIDATORS)
def test_the_example_of_a_kind_fails_the_draft_under_it(kind: str) -> None:
    validator = VALIDATORS[kind].model_validate(SECTIONS[kind].example)
    documents = RefinementRequest.model_validate(introduction()).context
    assert validator.kind == kind
    if validator.needs is None:
        assert violations(validator, SECTIONS[kind].failing, documents)
    else:
        assert f"HONE_{validator.needs.setting.upper()}" in SECTIONS[kind].text
