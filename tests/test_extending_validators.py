"""The validator of docs/extending.md: four files are enough."""

from pathlib import Path

from tests.extended_copy import extended_by

TESTS = ("declarations", "page", "dates")


def test_a_validator_is_added_by_its_declaration_its_check_its_test_and_its_section(
    tmp_path: Path, redis_url: str
) -> None:
    copy = extended_by("validator", tmp_path)
    copy.run("-m", "pytest", "-q", *(f"tests/validators/test_{name}.py" for name in TESTS))
    copy.run("-m", "tests.added_validator", "weekdays", redis_url)
