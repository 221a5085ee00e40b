"""Sources that are cited exist, and quotations from them are really in them."""

import pytest

from app.contract.requests import ContextDocument
from app.contract.validators.citations import CitationsValidator
from tests.validators import violations
from workers.validators.running import compile_validators
from workers.validators.violation import MAX_VIOLATIONS, Violation

DOCUMENTS = (
    ContextDocument(
        name="policy.md",
        text="Refunds take 30 days. The customer\u2019s receipt must be shown,\nwithout exception.",
    ),
    ContextDocument(name="faq", text="You can call us on weekdays between 9 and 17 o'clock."),
    ContextDocument(name="規約", text="返金は商品の返送から14日以内に行います。"),
)


def found(draft: str, *, min_quote_words: int = 4, required: bool = False) -> list[Violation]:
    validator = CitationsValidator(
        kind="citations", min_quote_words=min_quote_words, required=required
    )
    return violations(validator, draft, DOCUMENTS)


@pytest.mark.parametrize(
    "draft",
    [
        "Refunds take 30 days [policy.md]. Call us [FAQ].",
        "See [policy.md, section 2], [policy.md: p. 3] and [policy.md#refunds].",
        '"the customer\'s receipt must be shown without exception" [policy.md]',
        "It says: “Refunds take … receipt must be shown” [policy.md].",
        "«[The] customer\u2019s receipt must be shown» [policy.md]",
        '"Refunds take [only] 30 days," as [policy.md] has it.',
        'In [policy.md] and [faq]: "You can call us on weekdays", and "Refunds take 30 days".',
        "- [ ] open\n- [x] done [link](https://e.com) ![image][1] note[^1] `[code]` \\[raw]",
        "```\n[nowhere]\n```\n\n[1]: https://example.com",
        '"This one is nowhere at all" is attributed to nobody.',
        '"Refunds take ages" [policy.md] is too short to be looked up.',
        "「商品の返送から14日以内に」とあります[規約]。『返金は[中略]14日以内に行います』[規約]",
        "「キャンセル」を押します[規約]。Don\u2018t say \u201aages\u2018 [policy.md].",
        "See [policy.md].\r\n\r\nThe notice says “we always pay within a week”.\r\n",
        '"You can call us on weekdays" and "Refunds take 30 days" [policy.md][faq].',
        'The 13" model weighs less than the smallest 15" model by far [policy.md].',
        "> [!WARNING]\n> See [terms], [our terms][terms], [policy.md].\n\n[terms]: https://example.com",
        "",
    ],
)
def test_accepts(draft: str) -> None:
    assert found(draft) == []


@pytest.mark.parametrize(
    ("draft", "said", "quote"),
    [
        ("As in [polcy.md].", "names no document of the context", "[polcy.md]"),
        ("A [policy.md].\n\nSee [1] too.", "at line 3, column 5", "[1]"),
        (
            '"Refunds take 60 days at most" [policy.md]',
            "not in policy.md: it differs after 'refunds take' at line 1, column 1",
            '"Refunds take 60 days at most"',
        ),
        (
            '"Refunds take 30 days" [faq], not [policy.md]',
            "not in faq: 'refunds' does not occur there",
            '"Refunds take 30 days"',
        ),
        (
            "[policy.md] and [faq] say “we always pay within a week”.",
            "not in policy.md, faq",
            "“we always pay within a week”",
        ),
        (
            "「返金は商品の返送から七日以内に」と定めています[規約]。",
            "not in 規約",
            "「返金は商品の返送から七日以内に」",
        ),
        (
            "Siehe \u201aRefunds take 60 days\u2018 [policy.md].",
            "not in policy.md",
            "\u201aRefunds take 60 days\u2018",
        ),
        ("»Refunds take 60 days at most« [policy.md]", "differs", "»Refunds take 60 days at most«"),
        (
            '"receipt must be shown ... Refunds take 30 days" [policy.md]',
            "not in policy.md",
            '"receipt must be shown ... Refunds take 30 days"',
        ),
    ],
)
def test_points_at_what_is_wrong(draft: str, said: str, quote: str) -> None:
    (hit,) = found(draft)
    assert said in hit.message
    assert hit.quote == quote


def test_proposes_the_document_that_was_meant() -> None:
    assert found("[polcy.md]")[0].fix == "cite [policy.md], or remove it"


def test_short_quotations_are_looked_up_when_asked() -> None:
    assert len(found('"Refunds take ages" [policy.md]', min_quote_words=2)) == 1


def test_a_citation_can_be_required() -> None:
    assert found("Refunds take 30 days [policy.md].", required=True) == []
    (hit,) = found("Refunds take 30 days.", required=True)
    assert "cites no document" in hit.message


def test_without_a_context_no_citation_is_right() -> None:
    (hit,) = violations(CitationsValidator(kind="citations"), "[policy.md]", ())
    assert "no context" in hit.fix


def test_reports_only_the_first_flaws() -> None:
    assert len(found("[nowhere] " * 100)) == MAX_VIOLATIONS


async def test_reads_the_context_of_the_request() -> None:
    checks = compile_validators([CitationsValidator(kind="citations")], context=DOCUMENTS)
    assert await checks.run('"Refunds take 30 days" [policy.md]') == ()
    (finding,) = await checks.run('"Refunds take 31 days" [policy.md]')
    assert (finding.source, finding.kind) == ("validators/0", "citations")


@pytest.mark.parametrize(
    "draft", ['"' * 200_000, "[" * 200_000, '"a b c d" [faq] ' * 12_000, "`" * 200_000]
)
async def test_hostile_drafts_come_to_an_end(draft: str) -> None:
    long = ContextDocument(name="faq", text="a b c " * 160_000)
    checks = compile_validators([CitationsValidator(kind="citations")], context=[long])
    assert await checks.run(draft) is not None
