"""Further texts that are made of the result."""

from typing import Annotated

from pydantic import Field

from app.contract.model import Contract
from app.contract.parted_strategies import Instructions, PartName


class Output(Contract):
    """A text that is written from the final draft, such as the subject line of an e-mail."""

    name: PartName
    instructions: Annotated[Instructions, Field(min_length=1)]
