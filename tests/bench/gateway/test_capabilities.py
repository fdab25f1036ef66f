"""What a build can do, by its help and schema."""

from __future__ import annotations

from typing import Any

import pytest

from bench.gateway.capabilities import discover, from_texts, put

NO_CHOICE = "usage: serve [--ledger URL]\n  --ledger URL  the ledger\n"
CHOICE = """\
usage: serve [--transport NAME]

  --ledger URL      the ledger
  --transport NAME  how Envoy is served: grpcio, or asyncio, which takes
                    less (default: grpcio)
  --workers N       processes
"""


def schema(**properties: object) -> dict[str, Any]:
    """Return a policy's schema with *properties*, and a quota by reference."""
    quota = {"properties": {"rate": {"type": "integer"}}}
    return {"properties": properties, "$defs": {"Quota": quota}}


def test_without_a_choice_there_is_one_of_each() -> None:
    """Responses are inspected, over grpc.aio, and limits are off or in Redis."""
    build = from_texts(NO_CHOICE, schema(version={"const": 1}))

    assert build.known == {
        *("path:inspect", "transport:grpcio", "limits:off", "limits:redis")
    }
    assert build.transport_option is None
    assert build.path_place is None


def test_transports_are_those_of_an_option() -> None:
    """Whatever it is called: its help names grpcio."""
    build = from_texts(CHOICE, schema())

    assert build.transport_option == "--transport"
    assert {"transport:asyncio", "transport:grpcio", "workers"} <= build.known


def test_paths_are_found_where_they_may_be_chosen() -> None:
    """At the shallowest place that knows `inspect`; `auto` is no path."""
    choice = {"enum": ["auto", "native", "inspect"]}
    route = {"properties": {"path": choice}}
    content = schema(
        routes={"additionalProperties": {"$ref": "#/$defs/Route"}}, responses=choice
    )
    content["$defs"]["Route"] = route

    build = from_texts(NO_CHOICE, content)

    assert build.path_place == ("responses",)
    assert {"path:native", "path:inspect"} <= build.known
    assert "path:auto" not in build.known


def test_a_choice_deep_inside_is_found_by_reference() -> None:
    """Also where it is one of several forms."""
    content = schema(
        tenants={"patternProperties": {"^.+$": {"$ref": "#/$defs/Tenant"}}}
    )
    lease = {"anyOf": [{"type": "boolean"}, {"type": "object"}]}
    content["$defs"]["Quota"]["properties"]["lease"] = lease
    content["$defs"]["Tenant"] = {
        "properties": {"quotas": {"items": {"$ref": "#/$defs/Quota"}}}
    }

    build = from_texts(NO_CHOICE, content)

    assert build.lease_places == (("tenants", "*", "quotas", "[]", "lease"),)
    assert build.lease_value is True
    assert "limits:leases" in build.known


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ({"enum": ["off", "auto"]}, "auto"),
        ({"type": "object"}, {}),
        ({"type": "boolean"}, True),
    ],
)
def test_leases_are_turned_on_by_what_fits(member: object, value: object) -> None:
    """A word, an empty mapping with all its defaults, or true."""
    assert from_texts(NO_CHOICE, schema(leases=member)).lease_value == value


def test_a_ledger_in_memory_is_told_by_its_url() -> None:
    """Help that merely speaks of memory is none."""
    assert "limits:memory" in from_texts("--ledger memory: or redis://", schema()).known
    assert "limits:memory" not in from_texts("keeps it in memory", schema()).known


def test_a_value_is_put_wherever_it_fits() -> None:
    """Into each tenant's quotas, and at the root; nowhere if nothing is there."""
    content: dict[str, Any] = {
        "quotas": [],
        "tenants": {"a": {"quotas": [{}, {}]}, "b": {"quotas": []}},
    }

    put(content, ("tenants", "*", "quotas", "[]", "lease"), value=True)
    put(content, ("quotas", "[]", "lease"), value=True)
    put(content, ("caps", "[]", "lease"), value=True)
    put(content, ("responses", "path"), "native")

    assert content == {
        "quotas": [],
        "tenants": {"a": {"quotas": [{"lease": True}] * 2}, "b": {"quotas": []}},
        "responses": {"path": "native"},
    }


def test_this_build_can_do_something() -> None:
    """Its real help and schema are understood: where a tenant's quotas are, too."""
    build = discover()

    assert {"limits:redis", "transport:grpcio", "path:inspect"} <= build.known
    assert "limits:leases" not in build.known or (
        ("tenants", "*", "quotas", "[]") in {place[:-1] for place in build.lease_places}
    )
