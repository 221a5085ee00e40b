"""Access to this server: API keys, tenants, and their rights."""

from app.access.directory import SESSION_S, Caller, Directory, KeyEnded, may_be_key
from app.access.keyring import Keyring
from app.access.metering import Metering, RequestsLeft
from app.access.people import SignInFailed
from app.access.signed import SESSION_COOKIE, session_in
from app.access.tenants import TenantNotFound, Tenants

__all__ = [
    "SESSION_COOKIE",
    "SESSION_S",
    "Caller",
    "Directory",
    "KeyEnded",
    "Keyring",
    "Metering",
    "RequestsLeft",
    "SignInFailed",
    "TenantNotFound",
    "Tenants",
    "may_be_key",
    "session_in",
]
