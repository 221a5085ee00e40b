"""Data that API, workers and clients agree on. Nothing here does I/O."""

from pydantic import BaseModel, ConfigDict


class Contract(BaseModel):
    """Frozen data that rejects unknown fields, NaN and infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
