"""The model providers of docs/extending.md: one in a known wire format, and one in its own."""

from pathlib import Path

import pytest

from tests.extended_copy import extended_by


@pytest.mark.parametrize(("example", "provider"), [("provider", "acme"), ("wire_format", "plain")])
def test_a_provider_is_added_by_its_declaration_its_adapter_if_any_its_test_and_its_section(
    example: str, provider: str, tmp_path: Path, redis_url: str
) -> None:
    copy = extended_by(example, tmp_path)
    tests = (f"tests/models/test_{name}.py" for name in ("providers", provider))
    copy.run("-m", "pytest", "-q", *tests)
    copy.run("-m", "tests.added_provider", provider, redis_url)
