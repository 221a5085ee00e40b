"""The `json` validator: a draft that is one JSON document."""

import re
from collections.abc import Iterator
from itertools import islice

from app.contract.validators import JsonValidator
from workers.validators.documents import NotJson, read
from workers.validators.violation import Violation, body_of, shortened, violation_at

MAX_VIOLATIONS = 20
TOKEN = re.compile(r'(?P<string>"(?:[^"\\]++|\\.)*+")(?P<is_name>\s*+:)?|[{}\[\]]')


def check_json(validator: JsonValidator, draft: str) -> Iterator[Violation]:
    """Yield what keeps the draft from being one JSON document (RFC 8259), or every repeated name.

    The document may stand in one code fence.
    """
    body, offset = body_of(draft)
    try:
        read(body)
    except NotJson as reason:
        yield not_json(reason, draft, offset)
    else:
        yield from islice(_repeated(body, draft, offset), MAX_VIOLATIONS)


def not_json(error: NotJson, draft: str, offset: int) -> Violation:
    """Return the violation of a draft whose document, from `offset` on, cannot be read."""
    if error.position is None:
        return Violation(f"the draft is not JSON: {error}", "answer with one JSON document")
    return violation_at(
        draft,
        offset + error.position,
        f"the draft is not JSON: {error}",
        "answer with one JSON document and nothing else",
    )


def _repeated(body: str, draft: str, offset: int) -> Iterator[Violation]:
    """Yield every name that its object has already: readers disagree on which value counts."""
    objects: list[set[str]] = []
    for token in TOKEN.finditer(body):
        if token["is_name"]:
            name = read(token["string"])
            if name in objects[-1]:
                yield violation_at(
                    draft,
                    offset + token.start(),
                    f"the object has the name {shortened(token['string'])} twice, again at {{}}",
                    "keep one of the two, or rename one",
                    len(token["string"]),
                )
            objects[-1].add(name)
        elif token[0] in "{[":
            objects.append(set())
        elif token[0] in "}]":
            objects.pop()
