"""Checks the patterns and schemas of a request before anything runs."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice

from app.contract.errors import FieldError
from app.contract.json_schemas import MAX_VALUES, Error, errors_in
from app.contract.regexes import PatternError, compile_pattern
from app.contract.tools import Tool
from app.contract.validators import AnyValidator, Regex, Schema

MAX_ERRORS = 10


def check_validators(
    validators: Sequence[AnyValidator], tools: Sequence[Tool] = ()
) -> tuple[FieldError, ...]:
    """Return at most `MAX_ERRORS` errors, each with a JSON Pointer such as `/validators/0/pattern`.

    A hostile request takes up to a second of CPU time: call it in a thread.
    """
    return tuple(islice(_errors(validators, tools), MAX_ERRORS))


def _errors(validators: Sequence[AnyValidator], tools: Sequence[Tool]) -> Iterator[FieldError]:
    allowed = MAX_VALUES
    for pointer, given in _given(validators, tools):
        if isinstance(given, Regex):
            yield from _regex_error(pointer, given)
        else:
            errors, size = errors_in(given, allowed)
            allowed -= size
            yield from _at(pointer, errors)


def _given(
    validators: Sequence[AnyValidator], tools: Sequence[Tool]
) -> Iterator[tuple[str, Regex | Schema]]:
    """Yield every pattern and schema of a request with its JSON Pointer."""
    for index, validator in enumerate(validators):
        for at, given in chain(validator.regexes().items(), validator.json_schemas().items()):
            yield f"/validators/{index}{at}", given
    for index, tool in enumerate(tools):
        yield f"/tools/{index}/parameters", tool.parameters


def _regex_error(pointer: str, regex: Regex) -> Iterator[FieldError]:
    try:
        compile_pattern(regex.pattern, case_sensitive=regex.case_sensitive)
    except PatternError as error:
        yield FieldError(pointer=pointer, detail=str(error))


def _at(pointer: str, errors: Sequence[Error]) -> Iterator[FieldError]:
    for path, detail in errors:
        where = "".join(f"/{_escaped(str(part))}" for part in path)
        yield FieldError(pointer=f"{pointer}{where}", detail=detail)


def _escaped(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")
