"""Plain, which serves models in its own wire format."""

from app.contract.providers import Provider

PLAIN = Provider(
    name="plain",
    wire="plain",
    base_url="https://api.plain.example",
    address="For `plain:NAME`.",
    needs_key=True,
)
