"""Validators: checks of a draft that need no model, behind one port.

Each kind is one function in one file: a validator of the request and a draft in, violations out.
"""

from workers.validators.checks import RequestValidators, compile_validators
from workers.validators.resources import NO_RESOURCES, ServerResources, open_server_resources
from workers.validators.sandbox import RunsAsRoot
from workers.validators.violation import ValidatorUnavailable

__all__ = [
    "NO_RESOURCES",
    "RequestValidators",
    "RunsAsRoot",
    "ServerResources",
    "ValidatorUnavailable",
    "compile_validators",
    "open_server_resources",
]
