"""Plain, which serves models in a wire format of its own."""

from app.contract.providers import Provider

PLAIN = Provider(
    name="plain",
    wire="plain",
    base_url="https://api.plain.example",
    address="For `plain:NAME`.",
    needs_key=True,
)
