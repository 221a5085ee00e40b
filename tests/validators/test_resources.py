"""What the settings allow validators to use."""

import pytest
from pydantic import SecretStr, ValidationError

from app.settings import Settings
from workers.validators.running import open_server_resources


@pytest.mark.parametrize(("key", "can_call"), [(None, False), ("", False), ("k" * 16, True)])
async def test_endpoints_are_called_only_with_a_key_to_sign_with(
    key: str | None, can_call: bool
) -> None:
    secret = None if key is None else SecretStr(key)
    async with open_server_resources(Settings(secret_key=secret)) as outside:
        assert (outside.endpoints is not None) is can_call
        assert outside.sandbox is None


def test_a_short_key_is_refused_and_not_shown() -> None:
    with pytest.raises(ValidationError, match="at least 16") as refusal:
        Settings(secret_key=SecretStr("tooshort"))
    assert "tooshort" not in str(refusal.value)
