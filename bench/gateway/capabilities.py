"""
What this build of Tokenweir can do, by its own help and by the schema of its policy.

A capability is a word such as ``transport:asyncio``. Where something can be chosen, the
choice is found by its values, wherever it stands: ``serve`` has an option whose help
names ``grpcio``, the schema a member with the value ``inspect``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Schema = Mapping[str, Any]
# A member of the policy, from its root: names, "*" for any member, "[]" for any item.
Place = tuple[str, ...]

_OPTION = re.compile(r"^  (--[a-z-]+)(.*?)(?=^  --|^\S|\Z)", re.MULTILINE | re.DOTALL)
_TRANSPORT = re.compile(r"\b(grpcio|asyncio)\b")
_MEMORY = re.compile(r"\bmemory:", re.IGNORECASE)
_ANY, _ITEM = "*", "[]"
_DEPTH = 12


@dataclass(frozen=True, slots=True)
class Build:
    """
    Attributes:
        known: The capabilities.
        transport_option: Of ``serve``; None: there is one transport.
        path_place: The member of the policy that chooses a response path; None: there
            is one path.
        lease_places: The members that allow leases; none: there are none.
        lease_value: What allows them.
    """

    known: frozenset[str]
    transport_option: str | None = None
    path_place: Place | None = None
    lease_places: tuple[Place, ...] = ()
    lease_value: object = None
    schema: Schema = field(default_factory=dict, repr=False)


def discover() -> Build:
    """Ask the Tokenweir that is installed. Raises: OSError, CalledProcessError."""
    run = [sys.executable, "-m", "tokenweir"]
    help_text, schema = (
        subprocess.run([*run, *rest], check=True, capture_output=True, text=True).stdout
        for rest in (("serve", "--help"), ("schema",))
    )
    return from_texts(help_text, json.loads(schema))


def from_texts(help_text: str, schema: Schema) -> Build:
    """Return what *help_text* of ``serve`` and the policy's *schema* tell."""
    option, transports = _transport_choice(help_text)
    places = list(_places(schema, schema, ()))
    path_place, paths = _path_choice(places)
    lease_places, lease_value = _lease_choice(places)
    known = {
        *(f"transport:{name}" for name in transports),
        *(f"path:{name}" for name in paths),
        *("limits:off", "limits:redis"),
    }
    known |= {"limits:leases"} if lease_places else set()
    known |= {"limits:memory"} if _MEMORY.search(help_text) else set()
    known |= {"workers"} if re.search(r"--workers\b", help_text) else set()
    return Build(
        frozenset(known), option, path_place, lease_places, lease_value, schema
    )


def _transport_choice(help_text: str) -> tuple[str | None, tuple[str, ...]]:
    for option, about in _OPTION.findall(help_text):
        named = tuple(dict.fromkeys(_TRANSPORT.findall(about)))
        if "grpcio" in named:
            return option, named
    return None, ("grpcio",)


def _path_choice(
    places: list[tuple[Place, Schema]],
) -> tuple[Place | None, tuple[str, ...]]:
    found = [
        (place, values)
        for place, member in places
        if "inspect" in (values := _values(member))
    ]
    if not found:
        return None, ("inspect",)
    place, values = min(found, key=lambda each: len(each[0]))
    return place, tuple(str(value) for value in values if value != "auto")


def _lease_choice(
    places: list[tuple[Place, Schema]],
) -> tuple[tuple[Place, ...], object]:
    found = [
        (place, member) for place, member in places if re.search("lease", place[-1])
    ]
    if not found:
        return (), None
    # Of quotas wherever they stand: of everybody, of a tenant, of a key.
    first, member = min(found, key=lambda each: len(each[0]))
    return tuple(p for p, _ in found if p[-1] == first[-1]), _most(member)


def _most(member: Schema) -> object:
    """Return what turns *member* on."""
    values = _values(member)
    for word in ("on", "auto", "always"):
        if word in values:
            return word
    kinds = {each.get("type") for each in (member, *member.get("anyOf", ()))}
    return {} if "object" in kinds and "boolean" not in kinds else True


def _values(member: Schema) -> tuple[object, ...]:
    options: list[object] = list(member.get("enum", ()))
    options += [member["const"]] if "const" in member else []
    for each in (*member.get("anyOf", ()), *member.get("oneOf", ())):
        options += _values(each)
    return tuple(options)


def _places(root: Schema, node: Schema, place: Place) -> Iterator[tuple[Place, Schema]]:
    """Walk the members of *node*, the shallowest place of each kind included."""
    node = _resolved(root, node)
    if len(place) > _DEPTH:
        return
    for name, member in node.get("properties", {}).items():
        yield (*place, name), _resolved(root, member)
        yield from _places(root, member, (*place, name))
    members = (node.get("additionalProperties"), *_by_pattern(node))
    for inner, step in (
        *((each, _ANY) for each in members),
        (node.get("items"), _ITEM),
    ):
        if isinstance(inner, Mapping):
            yield from _places(root, inner, (*place, step))
    for each in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        yield from _places(root, each, place)


def _by_pattern(node: Schema) -> Iterable[object]:
    patterns: Mapping[str, object] = node.get("patternProperties", {})
    return patterns.values()


def _resolved(root: Schema, node: Schema) -> Schema:
    reference = node.get("$ref")
    if not isinstance(reference, str):
        return node
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return dict(found) | {k: v for k, v in node.items() if k != "$ref"}


def put(content: dict[str, Any], place: Place, value: object) -> None:
    """Set the member at *place* of a policy to *value*, of all that is there."""
    head, *rest = place
    if not rest:
        content[head] = value
        return
    following = rest[0]
    if following in {_ANY, _ITEM}:
        inner = content.get(head, {} if following == _ANY else [])
        for each in inner.values() if following == _ANY else inner:
            put(each, tuple(rest[1:]), value)
    else:
        put(content.setdefault(head, {}), tuple(rest), value)
