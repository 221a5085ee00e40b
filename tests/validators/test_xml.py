"""A draft that must be XML."""

from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.validators.formats import XmlValidator
from workers.validators.formats import check_xml
from workers.validators.violation import Violation

TEXT = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs", "Cn", "Cc"]), max_size=20)
LAUGHS = (
    '<?xml version="1.0"?>\n<!DOCTYPE lolz [\n<!ENTITY a "lol">\n'
    + "".join(
        f'<!ENTITY {b} "{f"&{a};" * 10}">\n' for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "]>\n<lolz>&i;</lolz>"
)


def found(draft: str) -> list[Violation]:
    return list(check_xml(XmlValidator(kind="xml"), draft))


@given(TEXT, TEXT)
def test_documents_pass(text: str, value: str) -> None:
    assert found(f"<é a={quoteattr(value)}><b/>{escape(text)}</é>") == []


@pytest.mark.parametrize(
    "draft",
    [
        '<?xml version="1.0" encoding="UTF-16"?><a/>',
        '<a xmlns:x="urn:x"><x:b/></a>',
        "```xml\n<a/>\n```",
        "<a>" * 5000 + "</a>" * 5000,
    ],
)
def test_accepts(draft: str) -> None:
    assert found(draft) == []


@pytest.mark.parametrize(
    ("draft", "said"),
    [
        ("<a>\n  <b>é</c>\n</a>", "mismatched tag at line 2, column 9"),
        ("```xml\n<a>\n<b x=1/></a>\n```", "at line 3, column 6"),
        ("<a>&nbsp;</a>", "undefined entity at line 1, column 4"),
        ("<x:a/>", "unbound prefix"),
        ("<a/><b/>", "junk after document element at line 1, column 5"),
        ("<a>", "no element found"),
        ("<a b='1' b='2'/>", "duplicate attribute"),
        ("Sure!", "not well-formed"),
        ("", "no element found"),
    ],
)
def test_points_at_what_is_wrong(draft: str, said: str) -> None:
    (hit,) = found(draft)
    assert said in hit.message


@pytest.mark.parametrize(
    "draft",
    [
        LAUGHS,
        '<!DOCTYPE a SYSTEM "http://127.0.0.1:9/x.dtd"><a/>',
        '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>',
        '<!DOCTYPE a [<!ENTITY % x SYSTEM "http://127.0.0.1:9/">%x;]><a/>',
    ],
)
def test_a_document_type_is_refused_before_it_declares_anything(draft: str) -> None:
    (hit,) = found(draft)
    assert "document type" in hit.message
    assert hit.quote == "<!DOCTYPE"
