"""The `xml` validator: a draft that is well-formed XML, without a DTD."""

from collections.abc import Iterator
from xml.parsers import expat

from app.contract.validators import XmlValidator
from workers.validators.violation import Violation, body_of, violation_at

# A DTD ends the parse before it can declare anything, so there is no entity to expand or fetch.


FIX = "correct the markup there; answer with one XML document and nothing else"


class _HasDtd(Exception):
    pass


def check_xml(validator: XmlValidator, draft: str) -> Iterator[Violation]:
    """Yield the first error (XML 1.0, Namespaces in XML 1.0); a document type is one."""
    body, offset = body_of(draft)
    data = body.encode()
    # The encoding that the declaration names is that of a file; a draft is text.
    parser = expat.ParserCreate("utf-8", namespace_separator=" ")
    parser.StartDoctypeDeclHandler = _refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        at = offset + len(data[: parser.ErrorByteIndex].decode(errors="ignore"))
        message = f"the draft is not well-formed XML: {expat.ErrorString(error.code)}"
        yield violation_at(draft, at, message, FIX)
    except _HasDtd:
        yield violation_at(
            draft,
            draft.find("<!DOCTYPE", offset),
            "the draft has a document type declaration, which could define entities",
            "remove the DOCTYPE; write characters out instead of entities",
            len("<!DOCTYPE"),
        )


def _refuse(*_declared: object) -> None:
    raise _HasDtd
