"""What every model of the contract has in common."""

from pydantic import BaseModel, ConfigDict


class Contract(BaseModel):
    """Frozen data that refuses unknown fields, NaN and infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
