"""JSON Schemas of replies, in the subset that every structured output accepts."""

TEXT: dict[str, object] = {"type": "string"}
NUMBER: dict[str, object] = {"type": "integer"}


def closed(properties: dict[str, object]) -> dict[str, object]:
    """Return an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def listed(name: str, items: dict[str, object]) -> dict[str, object]:
    """Return an object that holds one list."""
    return closed({name: {"type": "array", "items": items}})
