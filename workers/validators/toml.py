"""The `toml` validator: a draft that is one TOML document."""

import re
import tomllib
from collections.abc import Iterator

from app.contract.validators import TomlValidator
from workers.validators.documents import MAX_DEPTH
from workers.validators.violation import Violation, body_of, offset_of, violation_at

PLACE = re.compile(r" \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)\Z")
FIX = "correct the syntax there; answer with one TOML document and nothing else"


def check_toml(validator: TomlValidator, draft: str) -> Iterator[Violation]:
    """Yield the first error (TOML 1.0), a key or table that is there twice included."""
    body, offset = body_of(draft)
    try:
        tomllib.loads(body)
    except tomllib.TOMLDecodeError as error:
        # Only Python 3.14 has the place as attributes as well.
        said = str(error)
        place = PLACE.search(said)
        at = len(body)
        if place and place["line"]:
            at = offset_of(body, int(place["line"]), int(place["column"]))
        reason = PLACE.sub("", said)
        yield violation_at(draft, offset + at, f"the draft is not TOML: {reason}", FIX)
    except RecursionError:
        yield Violation(
            f"the draft is not TOML that can be read: nested far more than {MAX_DEPTH} levels deep",
            "nest it less",
        )
    except ValueError:
        yield Violation(
            "the draft is not TOML that can be read: an integer has more than 4,300 digits",
            "write a smaller number, or a string",
        )
    else:
        if not body.strip():
            yield Violation("the draft is empty", FIX)
