"""Asks Hone with OpenAI's library and with LangChain, by their own defaults: `URL [KEY]`."""

import sys

from langchain_openai import ChatOpenAI  # type: ignore[import-not-found]
from openai import APIStatusError, OpenAI  # type: ignore[import-not-found]
from pydantic import BaseModel

URL, KEY, MODEL = sys.argv[1], (sys.argv[2:] or ["placeholder"])[0], "hone"
ASKED = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "Explain refunds."},
]
client = OpenAI(base_url=URL, api_key=KEY)


class Refund(BaseModel):
    """The form that an answer must have."""

    days: int


def says_draft(name: str, text: str | None) -> None:
    """Print that a text came, which must be a draft of the scripted model."""
    assert text, name
    assert text.startswith("Draft number"), text
    print(f"{name}: {text[:15]}")


completion = client.chat.completions.create(model=MODEL, messages=ASKED)
says_draft("chat", completion.choices[0].message.content)
assert completion.usage.total_tokens > 0

options = {"include_usage": True}
stream = client.chat.completions.create(
    model=MODEL, messages=ASKED, stream=True, stream_options=options
)
chunks = list(stream)
says_draft("stream", "".join(c.choices[0].delta.content or "" for c in chunks if c.choices))
assert chunks[-1].usage.total_tokens > 0

response = client.responses.create(model=MODEL, input="Explain refunds.", instructions="Be kind.")
says_draft("responses", response.output_text)

with client.responses.stream(model=MODEL, input=ASKED) as events:
    says_draft("responses, streamed", events.get_final_response().output_text)

parsed = client.chat.completions.parse(
    model=MODEL, messages=[{"role": "user", "content": "As JSON."}], response_format=Refund
)
print(f"parse: {parsed.choices[0].message.parsed}")
parsed_response = client.responses.parse(model=MODEL, input="As JSON.", text_format=Refund)
print(f"responses, parse: {parsed_response.output_parsed}")

assert MODEL in [model.id for model in client.models.list()]
try:
    client.chat.completions.create(model=MODEL, messages=ASKED, n=2)
except APIStatusError as refused:
    print(f"n=2: {refused.status_code}: {refused.message[:80]}")
else:
    raise AssertionError("n=2 must be refused")

chat = ChatOpenAI(base_url=URL, api_key=KEY, model=MODEL)
says_draft("LangChain", chat.invoke("Explain refunds.").content)
says_draft("LangChain, streamed", "".join(piece.content for piece in chat.stream("Explain.")))
structured = chat.with_structured_output(Refund, method="json_schema")
print(f"LangChain, structured: {structured.invoke('As JSON.')}")
print("succeeded")
