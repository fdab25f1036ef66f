"""
Who calls, and what for: all that can be told from a request's head.

The tenant comes from the key alone. No other header and no part of the body
can name it.
"""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass

from tokenweir.core.dialects import default_dialect, dialect_of
from tokenweir.core.dialects.base import Dialect
from tokenweir.core.events import Headers, RequestHead
from tokenweir.core.policy import Policy, Tenant
from tokenweir.core.rejection import UnknownKey

# Where SDKs put a key: OpenAI and most, Anthropic, Azure.
KEY_HEADERS = ("authorization", "x-api-key", "api-key")
# Costs no tokens, but a request all the same: it is metered by requests.
TOKEN_FREE_PATHS = {"/v1/messages/count_tokens": "count_tokens"}
BODILESS_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})


@dataclass(frozen=True, slots=True)
class Caller:
    """Who pays: a *tenant*, by the key *key_id* that may call *models* (or all)."""

    tenant: Tenant
    key_id: str
    models: tuple[str, ...] = ()


def identify(policy: Policy, headers: Headers) -> Caller | UnknownKey:
    """Return who calls, or why that can't be told."""
    if policy.single_tenant is not None:
        return Caller(policy.tenants[policy.single_tenant], "-")
    # An empty value proves nothing: some SDKs send one beside the other header.
    presented = {key for key in map(_key_in, headers) if key}
    if not presented:
        return UnknownKey(
            "No API key was sent: put it into the Authorization header "
            "(Bearer …) or into x-api-key."
        )
    if len(presented) > 1:
        return UnknownKey("More than one API key was sent: send exactly one.")
    presented_key = presented.pop()
    hint = _hint(presented_key)
    digest = hashlib.sha256(presented_key.encode("utf-8", "replace")).hexdigest()
    key = policy.keys.get(digest)
    if key is None:
        return UnknownKey(f"The API key is not known to this gateway's policy{hint}.")
    return Caller(policy.tenants[key.tenant], key.id, key.models)


def _hint(key: str) -> str:
    """Return how *key* may have come to be unknown, as far as its form tells."""
    # Headers that come twice arrive as one (RFC 9110, 5.2).
    if "," in key:
        return (
            ". It has a comma in it, as if its header had come more than once: send one "
            "key, once"
        )
    if " " in key:
        return (
            ". A key is one word: behind Bearer in the Authorization header, or alone in "
            "x-api-key"
        )
    return ""


def _key_in(header: tuple[str, str]) -> str | None:
    name, value = header
    if name not in KEY_HEADERS:
        return None
    if name != "authorization":
        return value.strip()
    scheme, _, key = value.strip().partition(" ")
    return key.strip() if scheme.lower() == "bearer" else value.strip()


class Door(enum.Enum):
    """What kind of path a request came to."""

    METERED = enum.auto()  # a dialect reads the body and its answer
    TOKEN_FREE = enum.auto()  # a known path that costs no tokens
    BODILESS = enum.auto()  # a method that carries no body
    LOOKALIKE = enum.auto()  # no known path, but some servers take it for one
    UNKNOWN = enum.auto()  # policy decides


@dataclass(frozen=True, slots=True)
class Entry:
    """
    Which door a request came in by.

    Attributes:
        door: Its kind.
        route: The class of paths, for quotas and metrics.
        path: Without query and fragment.
        errors: The dialect that the caller understands; at a metered door the one
            that reads the body.
    """

    door: Door
    route: str
    path: str
    errors: Dialect


def entry_of(head: RequestHead) -> Entry:
    """Return the door that *head* came in by."""
    path = head.path.partition("?")[0].partition("#")[0]
    errors = default_dialect(path, head.headers)
    if head.method == "POST":
        dialect = dialect_of(path)
        if dialect is not None:
            return Entry(Door.METERED, dialect.route, path, dialect)
        if path in TOKEN_FREE_PATHS:
            return Entry(Door.TOKEN_FREE, TOKEN_FREE_PATHS[path], path, errors)
    elif head.method in BODILESS_METHODS:
        models = path == "/v1/models" or path.startswith("/v1/models/")
        return Entry(Door.BODILESS, "models" if models else "other", path, errors)
    alike = dialect_of(_as_lenient_servers_read(path)) is not None
    return Entry(Door.LOOKALIKE if alike else Door.UNKNOWN, "opaque", path, errors)


def _as_lenient_servers_read(path: str) -> str:
    """
    Return *path* as servers take it that forgive case and what stands behind it.

    Where unknown paths pass unread, these would lead around the token limits.
    """
    plain = path.partition(";")[0].partition("%")[0]
    return plain.rstrip("/.\\").lower()
