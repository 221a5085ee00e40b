"""Settings: environment variables with the prefix HONE_, read once."""

from pathlib import Path
from typing import Annotated

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Everything that can be set; construct it with keywords in tests."""

    model_config = SettingsConfigDict(
        env_prefix="HONE_", env_file=".env", extra="ignore", frozen=True, populate_by_name=True
    )

    host: str = Field("127.0.0.1", description="Address the API listens on.")
    port: int = Field(8080, ge=0, le=65_535, description="Port the API listens on.")
    redis_url: str = Field(
        "", description="The shared Redis; empty: `hone serve` starts its own."
    )
    data_dir: Path = Field(
        Path("~/.local/share/hone"), description="Where the embedded Redis keeps its AOF."
    )
    model: str = Field("offline:editor", description="The model of every role that names none.")
    openai_base_url: str = Field(
        "https://api.openai.com/v1",
        description="Any OpenAI-compatible server, for `openai:NAME`.",
    )
    openai_api_key: SecretStr | None = Field(
        None,
        validation_alias=AliasChoices("openai_api_key", "HONE_OPENAI_API_KEY", "OPENAI_API_KEY"),
        description="Its key.",
    )
    anthropic_base_url: str = Field(
        "https://api.anthropic.com", description="For `anthropic:NAME`."
    )
    anthropic_api_key: SecretStr | None = Field(
        None,
        validation_alias=AliasChoices(
            "anthropic_api_key", "HONE_ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY"
        ),
        description="Its key.",
    )
    model_timeout_s: float = Field(120, gt=0, description="Seconds one model call may take.")
    max_reply_bytes: int = Field(4 * 1024 * 1024, ge=1024, description="Bytes of one model reply.")
    concurrency: int = Field(200, ge=1, le=10_000, description="Refinements in flight per worker.")
    queue: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")] = Field(
        "hone", description="Name of the RQ queue."
    )
    queue_max: int = Field(10_000, ge=1, description="Refinements waiting at most.")
    grace_s: float = Field(20, ge=0, description="Seconds to leave in after SIGTERM.")
    max_body_bytes: int = Field(2 * 1024 * 1024, ge=1024, description="Bytes of a request body.")
    lease_s: float = Field(
        5,
        ge=0.5,
        description="Seconds after which a silent worker's refinements are taken over.",
    )
    retention_s: int = Field(86_400, ge=1, description="Seconds an ended refinement is kept.")
