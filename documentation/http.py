"""The pages on HTTP, from the OpenAPI document: every operation, and every object."""

from collections.abc import Iterator, Mapping
from typing import Any

from documentation.schemas import Schema, cell, fields_of, said, type_of

OBJECTS = "objects.md"
EVENTS = "Event"


def operations(document: Mapping[str, Any]) -> str:
    """Return the page of all operations, by their tags."""
    lines = ["# HTTP", "", *INTRODUCTION]
    for tag in document["tags"]:
        lines += [f"## {tag['name'].capitalize()}", "", tag["description"], ""]
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation["tags"]:
                    lines += _operation(f"{method.upper()} {path}", operation)
    webhooks = "[webhooks](../watching.md#webhooks)"
    lines += ["## Sent to you", "", f"Bodies of {webhooks}, by their `type`.", ""]
    lines += ["| type | body | |", "|---|---|---|"]
    for name, methods in document["webhooks"].items():
        sent = methods["post"]
        lines.append(f"| `{name}` | {_content(sent['requestBody'])} | {sent['summary']} |")
    return "\n".join([*lines, ""])


INTRODUCTION = (
    "Every operation of the API. A server has this as an OpenAPI document at `/openapi.json`, and",
    "as a page that sends requests at `/docs`. Every refusal is a problem with a code, for which",
    "[errors](errors.md) says the cause and what to do.",
    "",
)


def _operation(name: str, operation: Schema) -> Iterator[str]:
    anchor = operation["operationId"].lower()
    yield from (f"### {operation['summary'].strip()} {{ #{anchor} }}", "", f"`{name}`", "")
    yield from (operation.get("description", ""), "")
    if operation.get("parameters"):
        yield from ("| parameter | in | type | |", "|---|---|---|---|")
        for it in operation["parameters"]:
            is_required = it["in"] != "path" and it.get("required", False)
            meaning = said({**it["schema"], **it}, is_required)
            kind = cell(type_of(it["schema"], OBJECTS))
            yield f"| `{it['name']}` | {it['in']} | {kind} | {cell(meaning)} |"
        yield ""
    if "requestBody" in operation:
        yield from (f"Body: {_content(operation['requestBody'])}", "")
    refused = []
    yield from ("| status | answer | |", "|---|---|---|")
    for status, response in operation["responses"].items():
        if int(status) >= 400:
            refused += _codes(response)
        else:
            yield f"| {status} | {_content(response)} | {cell(response['description'])} |"
    yield ""
    if refused:
        yield from (f"Errors: {', '.join(dict.fromkeys(refused))}", "")


def _codes(response: Schema) -> list[str]:
    examples = response.get("content", {}).get("application/problem+json", {}).get("examples", {})
    return [
        f"[`{code}`](errors.md#{it['value']['status']}-{code})" for code, it in examples.items()
    ]


def _content(of: Schema) -> str:
    """Return the media types of a body, each with its object."""
    shown = []
    for media, body in of.get("content", {}).items():
        schema = body.get("schema", {})
        kind = type_of(schema, OBJECTS) if schema else ""
        plain = kind in {"", "string", "any"}
        shown.append(f"`{media}`" if plain else f"{kind} (`{media}`)")
        if plain and "description" in schema:
            shown[-1] += f": {cell(schema['description'])}"
    return ", ".join(shown)


def objects(document: Mapping[str, Any]) -> str:
    """Return the page of all objects, in the order of the alphabet."""
    lines = ["# Objects", "", "The JSON objects of requests and answers.", ""]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += [f"## {name}", ""]
        if name == EVENTS or name.endswith("Event"):
            lines += ["An event, see [events](events.md).", ""]
            continue
        lines += [schema.get("description", ""), ""]
        if bases := [type_of(base) for base in schema.get("allOf", ())]:
            lines += [f"The fields of {' and '.join(bases)}, and of its own:", ""]
        is_object = "properties" in schema or bases
        lines += [*fields_of(schema)] if is_object else [type_of(schema), ""]
    return "\n".join(lines)
