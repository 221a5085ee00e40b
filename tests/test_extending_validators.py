"""The validator of docs/extending.md: four files are enough."""

from pathlib import Path

import pytest

from tests.extended_copy import extended_by, files_of, is_shown

TESTS = (
    "test_declarations.py::test_a_function_of_its_name_checks_it[weekdays]",
    "test_declarations.py::test_every_check_belongs_to_a_kind_that_is_declared",
    "test_page.py::test_the_page_has_a_section_for_each_kind",
    "test_page.py::test_the_example_of_a_kind_fails_the_draft_under_it[weekdays]",
    "test_dates.py",
)


def test_a_validator_is_added_by_its_declaration_its_check_its_test_and_its_section(
    tmp_path: Path,
) -> None:
    copy = extended_by("validator", tmp_path)
    tests = (f"tests/validators/{test}" for test in TESTS)
    copy.test("tests/added_validator.py", *tests, added="weekdays")


@pytest.mark.parametrize("added", files_of("validator"), ids=lambda it: it.name)
def test_the_page_shows_the_files_of_the_example(added: Path) -> None:
    assert is_shown(added)
