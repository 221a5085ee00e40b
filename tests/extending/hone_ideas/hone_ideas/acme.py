"""Acme, which serves its own models in OpenAI's wire format."""

from app.contract.providers import Provider

ACME = Provider(
    name="acme",
    wire="openai",
    base_url="https://api.acme.example/v1",
    address="For `acme:NAME`.",
    needs_key=True,
)
