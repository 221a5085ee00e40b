"""The `regex` validator: a pattern in RE2 syntax that must, or must not, match somewhere."""

from collections.abc import Iterator
from itertools import islice

from app.contract.regexes import compile_pattern
from app.contract.validators import RegexValidator
from workers.validators.violation import Violation, shortened

MAX_VIOLATIONS = 20


def check_regex(validator: RegexValidator, draft: str) -> Iterator[Violation]:
    """Yield a violation if nothing matches, or for each of the first matches of what must not."""
    pattern = compile_pattern(validator.pattern, case_sensitive=validator.case_sensitive)
    if validator.expect == "no_match":
        for found in islice(pattern.finditer(draft), MAX_VIOLATIONS):
            start, end = found.span()
            yield Violation(
                f"{shortened(draft[start:end])!r} matches {validator.pattern!r}, which nothing may",
                "remove or reword it",
                span=(start, end),
                quote=draft[start:end] if end - start <= 200 else None,
            )
    elif not pattern.search(draft):
        yield Violation(
            f"nothing in the draft matches {validator.pattern!r}",
            "write a passage that matches the pattern (RE2 syntax)",
        )
