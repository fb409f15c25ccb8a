"""Checks JSON against docs/schemas, which use the keywords of draft 7 listed below.

Supports the same keywords as tests/support/json_schema.h, but was written independently."""

import json
from functools import cache
from pathlib import Path
from typing import Any

_DIRECTORY = Path(__file__).resolve().parents[2] / "docs/schemas"
_KEYWORDS = {
    "$defs", "$id", "$ref", "$schema", "additionalProperties", "anyOf", "description", "enum",
    "items", "properties", "required", "title", "type",
}
# Commands with other schemas than the one of their own name.
_OF_COMMANDS = {
    "describe": ["describe", "describe-trial"],
    "pause": ["request"],
    "cancel": ["request"],
    "kill": ["request"],
    "reproduce": ["run", "created", "comparison", "refused"],
}


def parse(text: str | bytes) -> Any:
    """Parses strict JSON: rejects NaN and the like, which Python accepts."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def find_in_document(words: tuple[str, ...], out: str) -> list[str]:
    """Returns the errors in the output of a command with --json."""
    try:
        document = parse(out)
    except ValueError:
        return [f"'{' '.join(words)}': not a JSON document: {out[:200]!r}"]
    name = "-".join(words[:2]) if words[0] in ("checkpoint", "data", "set") else words[0]
    candidates = [_find(it, document) for it in _OF_COMMANDS.get(name, [name])]
    return [f"'{' '.join(words)}': {it}" for it in min(candidates, key=len)]


def find_in_event(event: Any) -> list[str]:
    """Returns the errors in a line of --jsonl."""
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        return [f"a line of --jsonl without an event: {json.dumps(event)[:200]}"]
    return _find(f"event-{event['event']}", event)


def _find(name: str, document: Any) -> list[str]:
    path = _DIRECTORY / f"{name}.json"
    if not path.exists():
        return [f"docs/schemas/{name}.json does not exist"]
    root = _read(path)
    return [f"docs/schemas/{name}.json: {it}" for it in _check(root, root, document, "")]


@cache
def _read(path: Path) -> Any:
    root = json.loads(path.read_text(encoding="utf-8"))
    _refuse_unknown(root)
    return root


def _refuse_unknown(schema: Any) -> None:
    """Rejects keywords that this module does not check."""
    if isinstance(schema, bool):
        return
    unknown = schema.keys() - _KEYWORDS
    if unknown:
        raise ValueError(f"a schema has the keywords {sorted(unknown)}, unknown to schemas.py")
    for name in ("items", "additionalProperties"):
        _refuse_unknown(schema.get(name, True))
    for name in ("$defs", "properties"):
        for part in schema.get(name, {}).values():
            _refuse_unknown(part)
    for part in schema.get("anyOf", []):
        _refuse_unknown(part)


def _is_of_type(document: Any, name: str) -> bool:
    if isinstance(document, bool) or name == "boolean":
        return isinstance(document, bool) and name == "boolean"
    types: dict[str, Any] = {
        "array": list,
        "integer": int,
        "null": type(None),
        "number": (int, float),
        "object": dict,
        "string": str,
    }
    return isinstance(document, types[name])


def _resolve(root: Any, reference: str) -> Any:
    found = root
    for part in reference.removeprefix("#").split("/")[1:]:
        found = found[part]
    return found


def _check(root: Any, schema: Any, document: Any, place: str) -> list[str]:
    if isinstance(schema, bool):
        return [] if schema else [f"{place or '/'}: is not allowed"]
    if "$ref" in schema:
        return _check(root, _resolve(root, schema["$ref"]), document, place)
    found = []
    text = json.dumps(document)[:80]
    if "type" in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(_is_of_type(document, name) for name in types):
            found.append(f"{place or '/'}: {text} is not of type {', '.join(types)}")
    # As text, since Python takes 1 for true.
    if "enum" in schema and text not in [json.dumps(it)[:80] for it in schema["enum"]]:
        found.append(f"{place or '/'}: {text} is not one of {schema['enum']}")
    if "anyOf" in schema:
        choices = [_check(root, it, document, place) for it in schema["anyOf"]]
        if all(choices):
            firsts = " or ".join(choice[0] for choice in choices)
            found.append(f"{place or '/'}: matches no alternative: {firsts}")
    if isinstance(document, dict):
        found += _check_object(root, schema, document, place)
    if isinstance(document, list) and "items" in schema:
        for number, item in enumerate(document):
            found += _check(root, schema["items"], item, f"{place}/{number}")
    return found


def _check_object(root: Any, schema: Any, document: dict[str, Any], place: str) -> list[str]:
    properties, other = schema.get("properties", {}), schema.get("additionalProperties", True)
    found = [
        f"{place or '/'}: lacks '{name}'"
        for name in schema.get("required", []) if name not in document
    ]
    for name, value in document.items():
        found += _check(root, properties.get(name, other), value, f"{place}/{name}")
    return found
