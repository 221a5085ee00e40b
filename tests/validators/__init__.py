"""Tests of validators."""

from app.contract.validators import AnyValidator
from workers.validators import Documents, first_findings
from workers.validators.violation import Violation


def violations(validator: AnyValidator, draft: str, documents: Documents = ()) -> list[Violation]:
    """Return the violations that a check finds, without its score."""
    found = first_findings(validator, draft, documents)
    return [each for each in found if isinstance(each, Violation)]
