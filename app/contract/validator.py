"""What every validator of a request has in common."""

from pydantic import Field

from app.contract import Contract
from app.contract.judgement import OnFail


class Validator(Contract):
    """A check of the draft that needs no model."""

    on_fail: OnFail = Field(
        OnFail.VETO,
        description="`veto`: the draft cannot pass; `revise`: a finding only; `warn`: reported.",
    )
