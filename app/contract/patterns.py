"""What is wrong with the patterns and schemas of a request, said before anything runs."""

from collections.abc import Iterator, Sequence
from itertools import islice

from app.contract.errors import FieldError
from app.contract.json_schemas import MAX_VALUES, Error, errors_in
from app.contract.regexes import PatternError, compile_pattern
from app.contract.tools import Tool
from app.contract.validators import AnyValidator, JsonSchemaValidator, RegexValidator

MAX_ERRORS = 10


def check_validators(
    validators: Sequence[AnyValidator], tools: Sequence[Tool] = ()
) -> tuple[FieldError, ...]:
    """Return at most `MAX_ERRORS` errors, each with a JSON Pointer such as `/validators/0/pattern`.

    A hostile request takes up to a second of CPU: call it in a thread.
    """
    return tuple(islice(_errors(validators, tools), MAX_ERRORS))


def _errors(validators: Sequence[AnyValidator], tools: Sequence[Tool]) -> Iterator[FieldError]:
    allowed = MAX_VALUES
    for index, validator in enumerate(validators):
        if isinstance(validator, RegexValidator):
            try:
                compile_pattern(validator.pattern, case_sensitive=validator.case_sensitive)
            except PatternError as error:
                yield FieldError(pointer=f"/validators/{index}/pattern", detail=str(error))
        elif isinstance(validator, JsonSchemaValidator):
            errors, size = errors_in(validator.schema_, allowed)
            allowed -= size
            yield from _at(f"/validators/{index}/schema", errors)
    for index, tool in enumerate(tools):
        errors, size = errors_in(tool.parameters, allowed)
        allowed -= size
        yield from _at(f"/tools/{index}/parameters", errors)


def _at(pointer: str, errors: Sequence[Error]) -> Iterator[FieldError]:
    for path, detail in errors:
        where = "".join(f"/{_escaped(str(part))}" for part in path)
        yield FieldError(pointer=f"{pointer}{where}", detail=detail)


def _escaped(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")
