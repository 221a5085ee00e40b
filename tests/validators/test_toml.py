"""A draft that must be TOML."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.validators.formats import TomlValidator
from workers.validators.formats import check_toml
from workers.validators.violation import Violation

KEYS = st.text("abc-_1", min_size=1, max_size=4)
VALUES = st.sampled_from(['"a"', "1", "1.5", "true", "2026-01-01", "[1, 2]", "{a = 1}", "'''\n'''"])


def found(draft: str) -> list[Violation]:
    return list(check_toml(TomlValidator(kind="toml"), draft))


@given(st.dictionaries(KEYS, VALUES, min_size=1))
def test_documents_pass(document: dict[str, str]) -> None:
    lines = "\n".join(f"{key} = {value}" for key, value in document.items())
    assert found(lines) == []
    assert found(f"```toml\n[table]\n{lines}\n```") == []


def test_a_fence_with_line_ends_of_windows_may_enclose_it() -> None:
    assert found("```toml\r\n[a]\r\nx = 1\r\n```") == []


@given(st.dictionaries(KEYS, VALUES, min_size=1), st.data())
def test_a_key_that_is_there_twice_does_not_pass(
    document: dict[str, str], data: st.DataObject
) -> None:
    again = data.draw(st.sampled_from(sorted(document)))
    lines = [f"{key} = {value}" for key, value in document.items()]
    assert len(found("\n".join([*lines, f"{again} = 1"]))) == 1


@pytest.mark.parametrize(
    ("draft", "said"),
    [
        ("a = 1\nb = = 2", "Invalid value at line 2, column 5"),
        ("```\na = 1\nb 2\n```", "at line 3, column 3"),
        ("[a]\nb = 1\n[a]", "Cannot declare ('a',) twice at line 3, column 3"),
        ('a = "x', "Unterminated string at line 1, column 7"),
        ("a = " + "[" * 50_000, "levels deep"),
        ("a = " + "1" * 5000, "4,300 digits"),
        ("Sure!", "Expected '='"),
        ("", "empty"),
    ],
)
def test_points_at_what_is_wrong(draft: str, said: str) -> None:
    (hit,) = found(draft)
    assert said in hit.message
    assert hit.fix
