"""Endpoints of the caller that a server may be asked to call."""

from typing import Annotated

from pydantic import Field

Url = Annotated[str, Field(pattern=r"^https?://[^\s/?#@\\]+([/?#]\S*)?$", max_length=2_000)]
"""Without user and password, which a log might show."""

TimeoutS = Annotated[float, Field(gt=0, le=60, description="Seconds, all tries together.")]
