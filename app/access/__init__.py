"""Who may use this server: API keys, tenants and what they may do."""

from app.access.directory import Caller, Directory
from app.access.keyring import Keyring

__all__ = ["Caller", "Directory", "Keyring"]
