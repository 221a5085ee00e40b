"""A draft that must be YAML."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.contract.validators.formats import YamlValidator
from tests.validators import violations
from workers.validators.running import compile_validators
from workers.validators.violation import MAX_VIOLATIONS, Violation

NAMES = st.text("aeé:#-*&!|>'\"{}[], \n1", max_size=6)
INNER = st.recursive(
    st.none() | st.booleans() | st.integers() | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=10,
)
DOCUMENTS = st.lists(INNER) | st.dictionaries(NAMES, INNER)


def found(draft: str) -> list[Violation]:
    return violations(YamlValidator(kind="yaml"), draft)


@given(DOCUMENTS, st.booleans())
def test_what_a_writer_of_yaml_writes_passes(document: Any, flow: bool) -> None:
    assert found(yaml.safe_dump(document, allow_unicode=True, default_flow_style=flow)) == []


@pytest.mark.parametrize(
    "draft",
    [
        "a: 1\n---\nb: 2\n",
        "---\n---\na: 1\n---\n",
        "- &x {a: 1}\n- *x\n- <<: *x\n  <<: *x\n",
        "? [1, 2]\n: pair\n? [1, 2]\n: other",
        "Bucket: !Ref Name\nwhen: !!timestamp 2026-01-01",
        "1: a\n'1': b",
        "```yaml\na: 1\n```",
    ],
)
def test_accepts(draft: str) -> None:
    assert found(draft) == []


@pytest.mark.parametrize(
    ("draft", "said", "quoted"),
    [
        ("a: 1\nb: [1, 2\nc: 3", "did not find expected ',' or ']'", None),
        ("a: 1\na: 2", "the key 'a' twice at line 2, column 1", "a"),
        ("é: {b: 1, b: 2}", "'b' twice at line 1, column 11", "b"),
        ("a: *nowhere", "no anchor before it at line 1, column 4", "*nowhere"),
        ("a: &x 1\n---\nb: *x", "no anchor before it at line 3", "*x"),
        ("a: !!python/object:os.system {}", "safe readers do not support", None),
        ("a: \x01", "control characters are not allowed at line 1, column 4", None),
        ("größe: straße\nb: \x0c\nc: 3\nd: 4", "not allowed at line 2, column 4", None),
        ("Sure, here you go.", "a single value at line 1, column 1", "Sure, here you go."),
        ("a: 1\n---\n'text'", "a single value at line 3, column 1", "'text'"),
        ('"a": 1\na: 2', "the key 'a' twice at line 2, column 1", "a"),
        ("---\n---\n", "contains no document", None),
        ("", "contains no document", None),
        ("# nothing", "contains no document", None),
        ("```yaml\na: b: c\n```", "mapping values are not allowed", None),
    ],
)
def test_points_at_what_is_wrong(draft: str, said: str, quoted: str | None) -> None:
    (hit,) = found(draft)
    assert said in hit.message
    assert quoted is None or hit.quote == quoted


def test_reports_only_the_first_flaws() -> None:
    assert len(found("a: 1\n" * 100)) == MAX_VIOLATIONS


@pytest.mark.parametrize("opening", ["[", "- ", "{a: ", "? "])
def test_deep_nesting_is_refused_before_it_costs_anything(opening: str) -> None:
    (hit,) = found(opening * 50_000)
    assert "levels deep" in hit.message


async def test_aliases_are_not_expanded() -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 60)
    )
    assert await compile_validators([YamlValidator(kind="yaml")]).run(bomb) == ()
