"""Corrections that need no opinion: the draft is corrected, checked again, and both are told."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from app.contract.judgement import FindingsReply, OnFail
from app.contract.validators import VALIDATORS, AnyValidator
from app.contract.validators.text import ExcludesValidator
from workers.validators.running import compile_validators

ONE: TypeAdapter[Any] = TypeAdapter(AnyValidator)
STYLE = {
    "kind": "excludes",
    "texts": ["utilize", "in order to"],
    "replacements": {"utilize": "use", "in order to": "to"},
    "case_sensitive": False,
    "whole_words": True,
}


def validator(**fields: Any) -> AnyValidator:
    built: AnyValidator = ONE.validate_python({"on_fail": "fix", **fields})
    return built


async def examined(draft: str, *given: AnyValidator, locked: tuple[str, ...] = ()) -> FindingsReply:
    return await compile_validators(given, locked=locked).examine(draft)


@pytest.mark.parametrize(
    ("fields", "draft", "expected"),
    [
        (
            {"kind": "spelling"},
            "You will recieve the the refund.",
            "You will receive the refund.",
        ),
        ({"kind": "spelling"}, "All of\r\nof\r\nthe money.", "All of\r\nthe money."),
        ({"kind": "spelling"}, "All of\r\nof the money.", "All of\r\nthe money."),
        (
            {"kind": "excludes", "texts": ["Größe"], "replacements": {"Größe": "Maß"}},
            "e\u0331: Gro\u0308ße",
            "e\u0331: Maß",
        ),
        (STYLE, "In order to pay, utilize it.", "To pay, use it."),
        (
            {"kind": "excludes", "texts": ["Github"], "replacements": {"Github": "GitHub"}},
            "On Github.",
            "On GitHub.",
        ),
        ({"kind": "json"}, "{'a': 1, b: [2,],}", '{"a": 1, "b": [2]}'),
        ({"kind": "json"}, "```json\n{'a': 1}\n```", '```json\n{"a": 1}\n```'),
        ({"kind": "json"}, "```\r\n{'a':\r\n1}\r\n```", '```\r\n{\r\n  "a": 1\r\n}\r\n```'),
        ({"kind": "json"}, "\ufeff{'a': 1}\r\n", '\ufeff{"a": 1}\r\n'),
        ({"kind": "json"}, "\ufeff```json\n{'a': 1}\n```", '\ufeff```json\n{"a": 1}\n```'),
        (
            {"kind": "json_schema", "schema": {"properties": {"n": {"type": "integer"}}}},
            '{"n": "2"}',
            '{"n": 2}',
        ),
        ({"kind": "markdown"}, "Run:\n\n~~~sh\nls", "Run:\n\n~~~sh\nls\n~~~"),
        ({"kind": "markdown"}, "Run:\r\n\r\n~~~\r\nls", "Run:\r\n\r\n~~~\r\nls\r\n~~~"),
        (
            {"kind": "markdown"},
            "| a | b | c |\n|---|---|---|\n| 1 |\n| 1 | 2\n",
            "| a | b | c |\n|---|---|---|\n| 1 | | |\n| 1 | 2 | |\n",
        ),
    ],
)
async def test_what_has_one_correction_is_corrected_and_then_passes(
    fields: dict[str, Any], draft: str, expected: str
) -> None:
    reply = await examined(draft, validator(**fields))
    assert (reply.text, reply.findings) == (expected, ())
    (fix,) = reply.fixes
    assert (fix.source, fix.kind) == ("validators/0", fields["kind"])


async def test_a_sound_document_with_crlf_in_a_fence_stays() -> None:
    reply = await examined('```\r\n{"a":\r\n1}\r\n```', validator(kind="json"))
    assert (reply.text, reply.findings) == (None, ())


@pytest.mark.parametrize(
    ("fields", "draft"),
    [
        ({"kind": "spelling"}, "You will receive the refund."),
        (STYLE, "Pay it."),
        ({"kind": "json"}, '{"a": 1.50}'),
        ({"kind": "markdown"}, "# A\n\n```\nls\n```\n"),
    ],
)
async def test_a_draft_that_passes_stays_as_it_is(fields: dict[str, Any], draft: str) -> None:
    assert await examined(draft, validator(**fields)) == FindingsReply()


@pytest.mark.parametrize(
    ("fields", "draft"),
    [
        ({"kind": "json"}, '{"total": 12, "total": 13}'),
        ({"kind": "json"}, "There is none."),
        ({"kind": "markdown"}, "# A\n\n### B\n"),
    ],
)
async def test_what_has_more_than_one_correction_stays_and_vetoes(
    fields: dict[str, Any], draft: str
) -> None:
    reply = await examined(draft, validator(**fields))
    assert (reply.text, reply.fixes) == (None, ())
    assert {it.on_fail for it in reply.findings} == {OnFail.VETO}


async def test_what_was_changed_is_told() -> None:
    reply = await examined(
        "Recieve it, utilize it.", validator(kind="spelling"), validator(**STYLE)
    )
    assert reply.text == "Receive it, use it."
    told = [(it.source, [(made.before, made.after) for made in it.changes]) for it in reply.fixes]
    assert told == [
        ("validators/0", [("Recieve", "Receive")]),
        ("validators/1", [("utilize", "use")]),
    ]


async def test_the_other_validators_see_the_corrected_draft() -> None:
    excluded = ONE.validate_python({"kind": "excludes", "texts": ["recieve"]})
    assert (await examined("Recieve it.", excluded, validator(kind="spelling"))).findings == ()


async def test_a_locked_text_is_not_corrected() -> None:
    reply = await examined("We recieve it.", validator(kind="spelling"), locked=("recieve",))
    assert reply.text is None
    assert len(reply.findings) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "length", "max_words": 3},
        {"kind": "regex", "pattern": "x"},
        {"kind": "excludes", "texts": ["just"]},
        {**STYLE, "replacements": {"utilize": "use"}},
        {"kind": "http", "url": "https://e.com"},
    ],
)
def test_fix_is_refused_where_no_rule_says_how(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="fix is not supported"):
        validator(**fields)


@pytest.mark.parametrize(
    ("replacements", "said"),
    [
        ({"just": "only"}, "not in texts"),
        ({"utilize": "utilized"}, "contains a forbidden text"),
        ({"Use": "use"}, "contains a forbidden text"),  # of a text with a capital it has one
    ],
)
def test_replacements_that_cannot_hold_are_refused(replacements: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        ExcludesValidator(kind="excludes", texts=("utilize", "Use"), replacements=replacements)


def test_the_kinds_that_can_fix_are_those_of_the_page() -> None:
    fixing = {kind for kind, it in VALIDATORS.items() if "can_fix" in vars(it)}
    assert fixing == {"excludes", "json", "json_schema", "markdown", "spelling"}
