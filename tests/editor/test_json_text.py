"""JSON drafts: told from prose, judged by whether they parse, repaired without losing a value."""

import json

import pytest

from app.contract.judgement import QUALITY, Criterion
from tests.editor.texts_to_edit import end_of, score_of
from workers.editor.critic import judged
from workers.text.json_documents import json_flaw, looks_like_json, repaired

JSON = Criterion(name="format", description="Valid JSON.")


@pytest.mark.parametrize(
    ("broken", "value"),
    [
        ('{"a": 1,}', {"a": 1}),
        ('["x", "y",]', ["x", "y"]),
        ('{"a": [1, 2, {"b": 3}', {"a": [1, 2, {"b": 3}]}),
        ('{"text": "cut off', {"text": "cut off"}),
        ("{'a': 'it', 'b': 2}", {"a": "it", "b": 2}),
        ("{a: 1, b_c: 2}", {"a": 1, "b_c": 2}),
        ('{"a": 1 "b": 2}', {"a": 1, "b": 2}),
        ('{"a": 1; "b": 2}', {"a": 1, "b": 2}),
        ('{"a" = 1}', {"a": 1}),
        ('["a" "b"]', ["a", "b"]),
        ('{"a": True, "b": None}', {"a": True, "b": None}),
        ('{"a": “curly”}', {"a": "curly"}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('{"a": 1} // a remark', {"a": 1}),
        ('// a remark\n{"a": 1}', {"a": 1}),
        ('{"a": 1, /* a remark */ "b": 2}', {"a": 1, "b": 2}),
        ('```json\n{"a": 1,}\n```', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('{"a": 1}\n{"b": 2}', [{"a": 1}, {"b": 2}]),
        ('{"a": .5, "b": +1}', {"a": 0.5, "b": 1}),
        ('{"day": 2024-01-02}', {"day": "2024-01-02"}),
        ('{"path": "C:\\x"}', {"path": "C:\\x"}),
        ('{"url": "https://example.com/x", "café": "größer",}', None),
    ],
)
def test_broken_json_is_repaired_and_every_value_kept(broken: str, value: object) -> None:
    assert looks_like_json(broken)
    assert score_of(broken) < 1
    mended = json.loads(end_of(broken))
    assert mended == (value or {"url": "https://example.com/x", "café": "größer"})
    assert score_of(end_of(broken)) == 1


@pytest.mark.parametrize(
    "broken",
    [
        '{"a": 1, "a": 2,}',  # two values for one name
        '{"a": 1,} and then some words',
        '{"a": 0.12345678901234567890,}',  # more digits than a float holds
        '{"a": "\\ud800",}',  # half a character
        '{"a" 1, "b": 2}',  # the library takes it for the name `a" 1, "b`
        '{"a" = 1, "b" = 2}',
        '{"price": 1,234}',
        '{"a": -Infinity}',
        '{"a": NaN, "b": undefined}',
        '{"a": 1, "b":',
        '{"a" ' * 5_000,  # far too tangled
        "[" * 50_000,
    ],
)
def test_a_repair_that_would_lose_something_is_not_made(broken: str) -> None:
    assert repaired(broken) is None
    assert end_of(broken) == broken


@pytest.mark.parametrize(
    "valid", ['{"a": 1.50, "b": 1e5}', '[{"a": "recieve teh teh"}]', "{}", "[]", '["in order to"]']
)
def test_valid_json_is_left_alone_down_to_its_digits_and_its_prose(valid: str) -> None:
    assert json_flaw(valid) is None
    assert score_of(valid) == 1
    assert end_of(valid) == valid


@pytest.mark.parametrize(
    "prose",
    [
        "[Draft] Dear Ms. Okafor, we are late.",
        "[1] Smith, 2009.",
        "[A link](https://example.com) is here.",
        "{{name}}, we are late.",
        "{not json} but a remark",
        "[x] done",
        "I like it.",
        "",
    ],
)
def test_prose_that_begins_with_a_bracket_is_prose(prose: str) -> None:
    assert not looks_like_json(prose)


def test_the_score_grows_with_the_part_that_parses_and_the_finding_says_where_it_ends() -> None:
    early, late = '{"a": 1 "b": 2, "c": 3}', '{"a": 1, "b": 2 "c": 3}'
    assert 0 < score_of(early) < score_of(late) <= 0.5
    finding = judged(late, (QUALITY,)).findings[0]
    assert finding.span is not None
    assert late[finding.span.start :].startswith('"c"')
    assert finding.quote == '"'


def test_json_is_never_judged_as_prose() -> None:
    critique = judged('{"a": 1}', (Criterion(name="clarity"), QUALITY))
    assert [it.score for it in critique.scores] == [None, 1]


def test_json_inside_prose_is_taken_out_only_where_a_criterion_asks_for_json() -> None:
    draft = "Here it is:\n\n```json\n{'a': 1}\n```\n\nI hope that it helps."
    assert end_of(draft) == draft
    assert score_of(draft, JSON) == 0
    assert end_of(draft, JSON) == '{"a": 1}'
    assert end_of("Sure: {'a': [1, 2} Bye.", JSON) == '{"a": [1, 2]}'
    assert end_of("There is none here.", JSON) == "There is none here."


def test_a_document_over_several_lines_stays_over_several_lines() -> None:
    assert end_of("{\n'a': 1,\n'b': 2\n}") == '{\n  "a": 1,\n  "b": 2\n}'
