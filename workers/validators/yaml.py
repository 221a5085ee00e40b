"""The `yaml` validator: a draft that is YAML."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml
from yaml import CSafeLoader, events

from app.contract.validators import YamlValidator
from workers.validators.documents import MAX_DEPTH
from workers.validators.violation import Violation, body_of, shortened, violation_at

MAX_VIOLATIONS = 20
OWN = "tag:yaml.org,2002:"
KNOWN = frozenset({
    "binary", "bool", "float", "int", "map", "merge", "null", "omap", "pairs", "seq", "set", "str",
    "timestamp", "value",
})  # fmt: skip
START = "start over: answer with one YAML document and nothing else"


@dataclass
class _Collection:
    """A mapping or sequence that is open; a mapping's nodes are key and value in turn."""

    is_mapping: bool
    nodes: int = 0
    keys: set[tuple[str | None, bool, str]] = field(default_factory=set)


def check_yaml(validator: YamlValidator, draft: str) -> Iterator[Violation]:
    """Yield the first error of syntax, and before it what readers refuse or read differently.

    The events of the parser are enough for that: nothing is built, so no alias is ever expanded.
    """
    body, offset = body_of(draft)
    count = 0
    try:
        for at, length, message, fix in _flaws(body):
            yield violation_at(draft, offset + at, f"the draft is not YAML: {message}", fix, length)
            count += 1
            if count >= MAX_VIOLATIONS:
                return
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = ", ".join(part for part in (error.problem, error.context) if part)
        yield violation_at(
            draft,
            offset + (mark.index if mark else 0),
            f"the draft is not YAML: {shortened(said, 200)}",
            "correct the syntax there; quote what holds `: ` or ` #` or starts with a sign",
        )
    except yaml.reader.ReaderError as error:
        yield violation_at(
            draft, offset + error.position, f"the draft is not YAML: {error.reason}", "remove it"
        )


def _flaws(body: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield offset, length, message and fix of what the syntax allows all the same."""
    open_ones: list[_Collection] = []
    anchors: set[str] = set()
    is_empty = True
    for event in yaml.parse(body, Loader=CSafeLoader):
        if isinstance(event, events.DocumentStartEvent):
            anchors.clear()
        if isinstance(event, events.CollectionEndEvent):
            open_ones.pop()
        if not isinstance(event, events.NodeEvent):
            continue
        is_empty = False
        assert event.start_mark
        assert event.end_mark
        at, length = event.start_mark.index, event.end_mark.index - event.start_mark.index
        for message, fix in _of_node(event, open_ones, anchors):
            yield at, length, message, fix
        if isinstance(event, events.CollectionStartEvent):
            open_ones.append(_Collection(isinstance(event, events.MappingStartEvent)))
            if len(open_ones) > MAX_DEPTH:
                yield at, 1, f"it is nested more than {MAX_DEPTH} levels deep", "nest it less"
                return
    if is_empty:
        yield 0, 0, "it holds no document", START


def _of_node(
    event: events.NodeEvent, open_ones: list[_Collection], anchors: set[str]
) -> Iterator[tuple[str, str]]:
    tag = getattr(event, "tag", None) or ""
    if isinstance(event, events.AliasEvent):
        if event.anchor not in anchors:
            yield f"the alias *{event.anchor} has no anchor before it", "write the value out"
    elif event.anchor:
        anchors.add(event.anchor)
    if tag.startswith(OWN) and tag.removeprefix(OWN) not in KNOWN:
        yield f"no reader that is safe knows the tag !!{tag.removeprefix(OWN)}", "remove the tag"
    if open_ones:
        yield from _repeated(event, open_ones[-1])
    elif isinstance(event, events.ScalarEvent) and event.implicit[0]:
        yield "it is neither a mapping nor a sequence, but text", START


def _repeated(event: events.NodeEvent, inside: _Collection) -> Iterator[tuple[str, str]]:
    inside.nodes += 1
    if not (inside.is_mapping and inside.nodes % 2 and isinstance(event, events.ScalarEvent)):
        return
    key = (event.tag, event.implicit[0], event.value)
    # Several merge keys in one mapping are common, and harmless.
    if key in inside.keys and key != (None, True, "<<"):
        yield (
            f"the mapping has the key {shortened(event.value)!r} twice",
            "keep one of the two, or rename one",
        )
    inside.keys.add(key)
