"""Every kind of validator: the function that checks it, and what that may cost.

A kind `k` is checked by the function `check_k` of the module `k` beside this one.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module

from app.contract.regexes import compile_pattern
from app.contract.requests import ContextDocument
from app.contract.validators import (
    AnyValidator,
    CitationsValidator,
    ContainsValidator,
    ExcludesValidator,
    LengthValidator,
    RegexValidator,
)
from workers.validators.violation import Violation

CheckFunction = Callable[..., Iterator[Violation]]
Documents = Sequence[ContextDocument]


@cache
def check_of(kind: str) -> CheckFunction:
    """Return the function that checks a kind; what it needs is imported when it is first wanted."""
    check: CheckFunction = getattr(import_module(f"workers.validators.{kind}"), f"check_{kind}")
    return check


def violations(
    validator: AnyValidator, draft: str, documents: Documents = ()
) -> Iterator[Violation]:
    """Yield what the draft breaks; how long that takes is for the caller to bound."""
    check = check_of(validator.kind)
    if reads_documents(validator):
        return check(validator, draft, documents)
    return check(validator, draft)


def reads_documents(validator: AnyValidator) -> bool:
    """Tell whether the check needs the request's context as well."""
    return isinstance(validator, CitationsValidator)


def is_quick(validator: AnyValidator, draft: str) -> bool:
    """Tell whether the check takes at most a few milliseconds, whatever the client wrote.

    RE2 at its slowest takes 9 ns per character and instruction, a search for a text 1 ns per
    character, one for whole words, and words and sentences, 300 ns per character (measured).
    """
    match validator:
        case LengthValidator():
            return len(draft) <= 10_000
        case ContainsValidator():
            return len(draft) * (len(validator.texts) + 1) <= 1_000_000
        case ExcludesValidator():
            return len(draft) * (len(validator.texts) + 1) <= 50_000
        case RegexValidator():
            compiled = compile_pattern(validator.pattern, case_sensitive=validator.case_sensitive)
            return len(draft) * compiled.programsize <= 500_000
        case _:
            return False
