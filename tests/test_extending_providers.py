"""The model providers of docs/extending.md: one in a known wire format, and one in its own."""

from pathlib import Path

import pytest

from tests.extended_copy import extended_by, files_of, is_shown


@pytest.mark.parametrize(("example", "provider"), [("provider", "acme"), ("wire_format", "plain")])
def test_a_provider_is_added_by_its_declaration_its_adapter_if_any_its_test_and_its_section(
    example: str, provider: str, tmp_path: Path
) -> None:
    copy = extended_by(example, tmp_path)
    tests = (f"tests/models/test_{name}.py" for name in ("providers", provider))
    copy.test("tests/added_provider.py", *tests, added=provider)


@pytest.mark.parametrize(
    "added", [*files_of("provider"), *files_of("wire_format")], ids=lambda it: it.name
)
def test_the_page_shows_the_files_of_the_examples(added: Path) -> None:
    assert is_shown(added)
