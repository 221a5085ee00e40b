"""Who may use this server: API keys, tenants and what they may do."""

from app.access.directory import Caller, Directory
from app.access.keyring import Keyring
from app.access.metering import Metering, RequestsLeft
from app.access.tenants import TenantNotFound, Tenants

__all__ = [
    "Caller",
    "Directory",
    "Keyring",
    "Metering",
    "RequestsLeft",
    "TenantNotFound",
    "Tenants",
]
