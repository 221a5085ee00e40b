"""Validators: checks of a draft that need no model, behind one port.

The function `check_<kind>` checks a kind; its module is named after the kind's family in the
contract. It takes a validator of the request, a draft and, if the kind reads them, the documents of
the request, and yields violations. A kind that needs a resource of the server has a coroutine
function instead, which also takes that resource and the key of the step, and returns violations.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from inspect import iscoroutinefunction
from itertools import islice
from typing import Any

from app.contract.plugins import playing_module
from app.contract.requests import ContextDocument
from app.contract.validators import VALIDATORS, AnyValidator, Validator
from workers.text.edits import Edit
from workers.validators.violation import (
    MAX_VIOLATIONS,
    CheckFailed,
    Measurement,
    ValidatorUnavailable,
    Violation,
    sound,
)

CheckFunction = Callable[..., Any]
Documents = Sequence[ContextDocument]


@cache
def check_of(family: str, kind: str) -> CheckFunction:
    """Return the function that checks a kind; its module and data are loaded at the first use.

    The function `load_KIND` of its module reads here what a check reads once, such as a list of
    words: the time for it does not count against a draft.
    """
    module = playing_module(__name__, "validators", family)
    if load := getattr(module, f"load_{kind}", None):
        load()
    check: CheckFunction = getattr(module, f"check_{kind}")
    return check


def load_check(kind: str) -> None:
    """Load the module that checks a kind. Raises ImportError if a function is missing in it."""
    declared = VALIDATORS[kind]
    module = playing_module(__name__, "validators", declared.family())
    check = getattr(module, f"check_{kind}", None)
    if check is None or iscoroutinefunction(check) is (declared.needs is None):
        form = "plain" if declared.needs is None else "coroutine"
        raise ImportError(f"{module.__name__} has no {form} function check_{kind}")
    if declared.can_fix is not Validator.can_fix and not hasattr(module, f"fix_{kind}"):
        raise ImportError(f"{module.__name__} has no function fix_{kind}")


def first_findings(
    validator: AnyValidator, draft: str, documents: Documents = ()
) -> tuple[Violation | Measurement, ...]:
    """Return what the check finds first in the draft; the caller must limit how long that takes.

    Raises `CheckFailed`.
    """
    with said_of_check():
        found = islice(start(validator, draft, documents), MAX_VIOLATIONS)
        return tuple(sound(each, draft) for each in found)


def corrections(validator: AnyValidator, draft: str) -> tuple[Edit, ...]:
    """Return the corrections that the validator knows; the caller must limit how long that takes.

    Raises `CheckFailed`.
    """
    with said_of_check():
        module = playing_module(__name__, "validators", validator.family())
        found: tuple[Edit, ...] = tuple(getattr(module, f"fix_{validator.kind}")(validator, draft))
        for edit in found:
            if not 0 <= edit.start <= edit.end <= len(draft):
                raise ValueError(f"{edit} is not in the draft")
        return found


@contextmanager
def said_of_check() -> Iterator[None]:
    """Raise `CheckFailed` in place of what is no refusal and no limit."""
    try:
        yield
    except (ValidatorUnavailable, MemoryError):
        raise
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        raise CheckFailed(f"{type(error).__name__}: {error}") from error


def start(validator: AnyValidator, draft: str, documents: Documents, *more: object) -> Any:
    """Call the function of a kind; return what it returns."""
    check = check_of(validator.family(), validator.kind)
    return check(validator, draft, *((documents,) if validator.reads_documents else ()), *more)
