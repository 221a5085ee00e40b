"""Validators: checks of a draft that need no model, behind one port.

Each kind is one function in one file: a validator of the request and a draft in, violations out.
"""

from workers.validators.checks import Checks, compile_validators
from workers.validators.unavailable import ValidatorUnavailable

__all__ = ["Checks", "ValidatorUnavailable", "compile_validators"]
