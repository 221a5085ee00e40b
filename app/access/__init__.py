"""Access to this server: API keys, tenants, and their rights."""
