"""Validators: checks of a draft that need no model, behind one port.

Each kind is one function in one file: a validator of the request and a draft in, violations out.
"""

from workers.validators.checks import Checks, compile_validators
from workers.validators.outside import NOTHING, Outside, open_outside
from workers.validators.sandbox import RunsAsRoot
from workers.validators.violation import ValidatorUnavailable

__all__ = [
    "NOTHING",
    "Checks",
    "Outside",
    "RunsAsRoot",
    "ValidatorUnavailable",
    "compile_validators",
    "open_outside",
]
