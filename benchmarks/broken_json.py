"""Generates broken JSON from a seed: documents that satisfy a schema, with named faults.

A fault of shape changes a value before the document is written; a fault of form changes the text.
"""

import json
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

ITEM: dict[str, Any] = {
    "type": "object",
    "required": ["title", "quantity", "price", "in_stock", "tags", "status"],
    "additionalProperties": False,
    "properties": {
        "title": {"type": "string", "minLength": 1},
        "quantity": {"type": "integer", "minimum": 0},
        "price": {"type": "number"},
        "in_stock": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "status": {"enum": ["new", "in progress", "done"]},
        "note": {"type": ["string", "null"]},
    },
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["version", "order_id", "customer", "items"],
    "additionalProperties": False,
    "properties": {
        "version": {"const": 2},
        "order_id": {"type": "string"},
        "customer": {
            "type": "object",
            "required": ["first_name", "e_mail"],
            "additionalProperties": False,
            "properties": {
                "first_name": {"type": "string"},
                "e_mail": {"type": "string"},
                "home_page": {"type": "string"},
            },
        },
        "items": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/item"}},
    },
    "$defs": {"item": ITEM},
}

TITLES = (
    "Lamp, brass", "Chair: oak", "Tea & biscuits", "12 mm drill", "Café table", "Rope (10 m)",
    "Notebook", "Pen, blue", "So-called 'antique' vase", "Line one\nline two", 'A 5" screen',
)  # fmt: skip
TAGS = ("home", "sale", "no returns", "true", "42", "[b]", "a/b")
NAMES = ("Ada", "Grace", "Zoë", "O'Brien", "Jean-Luc", "Null")


@dataclass(frozen=True)
class Broken:
    """A broken text, the original document, and the faults that were put in."""

    text: str
    original: dict[str, Any]
    faults: tuple[str, ...]


def broken(random: Random) -> Broken:
    """Make one document with one to four different faults."""
    document = _document(random)
    names = random.sample(sorted({**SHAPE, **FORM}), random.randint(1, 4))
    value = deepcopy(document)
    done = [name for name, change in SHAPE.items() if name in names and change(value, random)]
    text = json.dumps(value, ensure_ascii=False, indent=random.choice([None, 2]))
    for name, write in FORM.items():
        if name in names and (changed := write(text, random)) != text:
            text, done = changed, [*done, name]
    return Broken(text, document, tuple(done)) if done else broken(random)


def _document(random: Random) -> dict[str, Any]:
    name = random.choice(NAMES)
    customer = {"first_name": name, "e_mail": f"{name.lower()}@example.com"}
    if random.random() < 0.5:
        customer["home_page"] = "https://example.com/a?b=1#c"
    return {
        "version": 2,
        "order_id": f"00{random.randint(100, 999)}",
        "customer": customer,
        "items": [_item(random) for _ in range(random.randint(1, 3))],
    }


def _item(random: Random) -> dict[str, Any]:
    return {
        "title": random.choice(TITLES),
        "quantity": random.randint(0, 2_000),
        "price": random.randint(1, 9_999) / 100 + 0.001,
        "in_stock": random.random() < 0.5,
        "tags": random.sample(TAGS, random.randint(1, 3)),
        "status": random.choice(["new", "in progress", "done"]),
        "note": random.choice([None, "fragile", "call first: 555-0100"]),
    }


def _number_as_text(value: dict[str, Any], random: Random) -> bool:
    item = random.choice(value["items"])
    name = random.choice(["quantity", "price"])
    item[name] = str(item[name])
    return True


def _boolean_as_text(value: dict[str, Any], random: Random) -> bool:
    item = random.choice(value["items"])
    written = str(item["in_stock"])
    item["in_stock"] = random.choice([written, written.lower()])
    return True


def _text_as_number(value: dict[str, Any], random: Random) -> bool:
    item = random.choice(value["items"])
    if "42" not in item["tags"]:
        return False
    item["tags"] = [42 if tag == "42" else tag for tag in item["tags"]]
    return True


def _one_instead_of_list(value: dict[str, Any], random: Random) -> bool:
    item = random.choice(value["items"])
    if len(item["tags"]) != 1:
        return False
    item["tags"] = item["tags"][0]
    return True


def _list_instead_of_one(value: dict[str, Any], random: Random) -> bool:
    item = random.choice(value["items"])
    item["title"] = [item["title"]]
    return True


def _other_case_of_name(value: dict[str, Any], random: Random) -> bool:
    customer = value["customer"]
    customer[random.choice(["firstName", "First Name", "FIRST-NAME"])] = customer.pop("first_name")
    return True


def _other_case_of_option(value: dict[str, Any], random: Random) -> bool:
    item = random.choice(value["items"])
    option = item["status"]
    item["status"] = random.choice([option.upper(), option.replace(" ", "_").title()])
    return True


def _constant_left_out(value: dict[str, Any], _: Random) -> bool:
    del value["version"]
    return True


def _one_of(pattern: str, text: str, by: str, random: Random) -> str:
    """Replace one match of the pattern outside strings."""
    found = [it for it in re.finditer(rf'"(?:[^"\\]|\\.)*"|(?P<at>{pattern})', text) if it["at"]]
    if not found:
        return text
    chosen = random.choice(found)
    return text[: chosen.start()] + by + text[chosen.end() :]


def _strings(text: str, random: Random, change: Callable[[str], str], *, names: bool) -> str:
    """Change one string, a name or a value."""
    strings = re.finditer(r'"(?:[^"\\]|\\.)*"(?P<colon>\s*:)?', text)
    whole = [it for it in strings if bool(it["colon"]) == names]
    found = [(it.start(), it[0].removesuffix(it["colon"] or "")) for it in whole]
    found = [(start, string) for start, string in found if change(string) != string]
    if not found:
        return text
    start, string = random.choice(found)
    return text[:start] + change(string) + text[start + len(string) :]


def _trailing_comma(text: str, random: Random) -> str:
    """Put a comma before one closing bracket outside strings."""
    found = [it for it in re.finditer(r'"(?:[^"\\]|\\.)*"|(?P<at>\s*[\]}])', text) if it["at"]]
    chosen = random.choice(found)
    return f"{text[: chosen.start()]},{text[chosen.start() :]}"


def _single_quoted(string: str) -> str:
    return f"'{string[1:-1]}'" if "'" not in string and "\\" not in string else string


def _unescaped(string: str) -> str:
    return string.replace('\\"', '"')


def _in_block(text: str, random: Random) -> str:
    return f"{random.choice(['```json', '```'])}\n{text}\n```"


SHAPE: dict[str, Callable[[dict[str, Any], Random], bool]] = {
    "a number written as text": _number_as_text,
    "a boolean written as text": _boolean_as_text,
    "a text written as a number": _text_as_number,
    "one value instead of a list": _one_instead_of_list,
    "a list instead of one value": _list_instead_of_one,
    "a name in another case": _other_case_of_name,
    "an option in another case": _other_case_of_option,
    "a constant left out": _constant_left_out,
}
FORM: dict[str, Callable[[str, Random], str]] = {
    "quotes inside a string not escaped": lambda t, r: _strings(t, r, _unescaped, names=False),
    "a line break inside a string": lambda t, r: _strings(
        t, r, lambda it: it.replace("\\n", "\n"), names=False
    ),
    "single quotes": lambda t, r: _strings(t, r, _single_quoted, names=False),
    "a name without quotes": lambda t, r: _strings(t, r, lambda it: it[1:-1], names=True),
    "typographic quotes": lambda t, r: _strings(t, r, lambda it: f"“{it[1:-1]}”", names=True),
    "a literal of Python": lambda t, r: (
        _one_of("true", t, "True", r) if "true" in t else _one_of("null", t, "None", r)
    ),
    "a comma left out": lambda t, r: _one_of(",", t, "", r),
    "a comma too many": _trailing_comma,
    "a colon left out": lambda t, r: _one_of(":", t, "", r),
    "an equals sign for a colon": lambda t, r: _one_of(":", t, " =", r),
    "a line comment": lambda t, r: _one_of(r"\{\n", t, "{ // checked by hand\n", r),
    "a block comment": lambda t, r: _one_of(r",", t, ", /* see above */", r),
    "the end cut off": lambda t, _: re.sub(r"[\s\]}]+\Z", "", t),
    "a code fence around it": _in_block,
    "prose around it": lambda t, _: f"Here is the order you asked for:\n\n{t}\n\nAnything else?",
}
