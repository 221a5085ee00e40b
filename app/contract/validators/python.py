"""The validator of Python code that is never run."""

from typing import Annotated, Literal

from pydantic import Field

from app.contract.validators import Validator


class PythonValidator(Validator):
    """The draft is Python that compiles on `version`, fenced or not. It is never run."""

    kind: Literal["python"]
    version: Literal["3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14"] = Field(
        "3.11", description="Oldest Python version that it must compile on."
    )
    ruff: tuple[Annotated[str, Field(pattern=r"^[A-Z]{1,4}[0-9]{0,4}$")], ...] = Field(
        (), max_length=50, description="Ruff rules or prefixes of rules, such as `F` and `B006`."
    )
