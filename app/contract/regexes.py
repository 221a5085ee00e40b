"""Regular expressions from clients: RE2, which matches in linear time and has no look-around.

Syntax: https://github.com/google/re2/wiki/Syntax. A pattern compiles in milliseconds; one that
needs more than `MAX_MEMORY` bytes is rejected. The caller bounds the time that a match may take.
"""

import re
from functools import lru_cache
from typing import Any, cast

import re2

MAX_PATTERN = 1_000
MAX_MEMORY = 1 << 20


class PatternError(ValueError):
    """The pattern is not RE2, too long, or needs too large a program; the message says which."""


@lru_cache(maxsize=64)
def compile_pattern(pattern: str, *, case_sensitive: bool = True) -> re.Pattern[str]:
    """Return the compiled pattern, or raise `PatternError`.

    Groups do not capture: callers need only the start and the end of a match, which RE2 finds
    without its slower engines.
    """
    return compiled(pattern, MAX_MEMORY, case_sensitive=case_sensitive)


def compiled(
    pattern: str, max_memory: int, *, case_sensitive: bool = True, captures: bool = False
) -> re.Pattern[str]:
    """Return the compiled pattern of at most `max_memory` bytes, or raise `PatternError`.

    re2 gives its patterns the interface of those of `re`, and no public name.
    """
    if len(pattern) > MAX_PATTERN:
        raise PatternError(
            f"the pattern has {len(pattern)} characters; at most {MAX_PATTERN} are allowed"
        )
    options = re2.Options()
    options.max_mem = max_memory
    options.case_sensitive = case_sensitive
    options.log_errors = False
    options.never_capture = not captures
    try:
        return cast("re.Pattern[str]", re2.compile(pattern, options))
    except re2.error as error:
        raise PatternError(_reason(error)) from None
    except UnicodeEncodeError:
        raise PatternError("the pattern contains a lone surrogate, not a character") from None


def instructions_of(pattern: re.Pattern[str]) -> int:
    """Return the length of the program that RE2 made of a pattern."""
    return int(cast("Any", pattern).programsize)


def _reason(error: re2.error) -> str:
    said = error.args[0] if error.args else ""
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    if "too large" in text:
        return "the pattern needs too large a program; lower its repetition counts"
    return f"invalid RE2 syntax: {text}"
