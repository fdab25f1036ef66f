"""
Who calls, and what for: all that can be told from a request's head.

The tenant comes from the key alone. No other header and no part of the body
can name it.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from urllib.parse import unquote_plus

from tokenweir.core.dialects import (
    COUNTING_FORMS,
    METERED_FORMS,
    counting_dialect,
    default_dialect,
    dialect_of,
)
from tokenweir.core.dialects.base import Dialect
from tokenweir.core.dialects.path_form import forgiven
from tokenweir.core.events import Headers, RequestHead
from tokenweir.core.policy import ApiKey, KeyEnd, Policy, Quota, Tenant
from tokenweir.core.rejection import EndedKey, RouteNotAllowed, UnknownKey

# Where SDKs put a key: OpenAI and most, Anthropic, Azure, Google.
KEY_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
# What AWS' SDKs send there if they have a secret to sign with. A signature proves nothing
# here, and goes into no message; but some of them send no bearer's key without TLS, so
# the id that signs may be the key.
_SIGNATURE = "AWS4-"
_SIGNER = re.compile(r"\bCredential=([^/,\s]+)")
_SIGNED = (
    "The request is signed by AWS Signature Version 4, and not by a key of this gateway. "
    "Send the gateway's key instead: as a Bedrock API key (AWS_BEARER_TOKEN_BEDROCK), or, "
    "in SDKs that want TLS for that, as AWS_ACCESS_KEY_ID with any secret."
)
# Google's API takes it from the query as well.
_QUERY_KEY = "key"
# Costs no tokens, but a request all the same: it is metered by requests.
COUNTING_ROUTE = "count_tokens"
TOKEN_FREE_PATHS = {
    "/v1/messages/count_tokens": COUNTING_ROUTE,
    "/v1/responses/input_tokens": COUNTING_ROUTE,
    "/v1/moderations": "moderations",
}
BODILESS_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
# All that apps and their SDKs need to read. The provider's credential goes along, so
# whatever else it could do (delete files, list keys) is for the policy to allow.
READ_METHODS = frozenset({"GET", "HEAD"})
HEALTH_PATHS = frozenset({"/", "/health"})
# Some servers take it for a slash, some do not: only where the form of a path says what
# it is can it be told where it leads.
_ESCAPED_SLASH = re.compile("%(?:2f|5c)", re.IGNORECASE)
# All is looked at before it is known who calls, and some of it more than once. A form
# has the longest path, with an ARN in it, of some hundred characters.
MAX_PATH_CHARS = 2_048
MAX_QUERY_CHARS = 8_192
MAX_QUERY_MEMBERS = 100
_MODELS = re.compile(
    r"((/openai)?(/v1)?|/v1beta)/models(/[A-Za-z0-9][A-Za-z0-9._:@-]*)*"
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who pays: a *tenant*, by what the *key* proves and as far as it reaches."""

    tenant: Tenant
    key: ApiKey

    @property
    def quotas(self) -> tuple[Quota, ...]:
        """The key's own, then the tenant's."""
        return self.key.quotas + self.tenant.quotas


def identify(policy: Policy, headers: Headers) -> Caller | UnknownKey:
    """Return who calls, or why that can't be told."""
    if policy.single_tenant is not None:
        tenant = policy.tenants[policy.single_tenant]
        return Caller(tenant, ApiKey("-", tenant.name))
    # An empty value proves nothing: some SDKs send one beside the other header.
    presented = {key for key in map(_key_in, headers) if key}
    if not presented:
        return UnknownKey(
            "No API key was sent: put it into the Authorization header "
            "(Bearer …) or into x-api-key."
        )
    signed = any(_is_signature(*header) for header in headers)
    if len(presented) > 1:
        return (
            UnknownKey(_SIGNED)
            if signed
            else UnknownKey("More than one API key was sent: send exactly one.")
        )
    presented_key = presented.pop()
    hint = _hint(presented_key)
    key = policy.key_ring.find(presented_key)
    if key is None and signed:
        return UnknownKey(_SIGNED)
    if key is None:
        return UnknownKey(f"The API key is not known to this gateway's policy{hint}.")
    return Caller(policy.tenants[key.tenant], key)


def credentials_in(head: RequestHead, entry: Entry) -> Headers:
    """Return the headers of *head*, and a key in its query where that can be one."""
    if entry.errors.name != "gemini":
        return head.headers
    _, _, query = head.path.partition("?")
    pairs = (pair.partition("=") for pair in query.split("&"))
    keys = (unquote_plus(value) for name, _, value in pairs if is_key(name))
    return (*head.headers, *(("x-goog-api-key", key) for key in keys))


def is_key(name: str) -> bool:
    """Tell if a member of a query, by its encoded *name*, holds a key."""
    return unquote_plus(name) == _QUERY_KEY


def barred(
    caller: Caller, entry: Entry, now_ms: int
) -> EndedKey | RouteNotAllowed | None:
    """Return why *caller*'s key does not open the door of *entry*, if it does not."""
    key = caller.key
    # The clocks of whoever revoked it and of this machine may differ: it is revoked.
    if key.ends_at_ms is not None and (
        key.end is KeyEnd.REVOKED or now_ms >= key.ends_at_ms
    ):
        return EndedKey(key.end, key.ends_at_ms)
    if key.routes and entry.route not in key.routes:
        return RouteNotAllowed(entry.route)
    return None


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


def _is_signature(name: str, value: str) -> bool:
    return name == "authorization" and value.strip().startswith(_SIGNATURE)


def _key_in(header: tuple[str, str]) -> str | None:
    name, value = header
    if name not in KEY_HEADERS:
        return None
    if name != "authorization":
        return value.strip()
    if _is_signature(name, value):
        signer = _SIGNER.search(value)
        return signer[1] if signer else value.strip()
    scheme, _, key = value.strip().partition(" ")
    return key.strip() if scheme.lower() == "bearer" else value.strip()


class Door(enum.Enum):
    """What kind of path a request came to."""

    METERED = enum.auto()  # a dialect reads the body and its answer
    TOKEN_FREE = enum.auto()  # a known path that costs no tokens
    BODILESS = enum.auto()  # a known path, read by a method that carries no body
    UNLISTED = enum.auto()  # such a method on any other path: policy decides
    TOO_LONG = enum.auto()  # nobody looks at it
    LOOKALIKE = enum.auto()  # no known path, but some servers take it for one
    UNKNOWN = enum.auto()  # any other method on any other path: policy decides


@dataclass(frozen=True, slots=True)
class Entry:
    """
    Which door a request came in by.

    Attributes:
        door: Its kind.
        method: Of the request.
        route: The class of paths, for quotas and metrics.
        path: Without query and fragment.
        errors: The dialect that the caller understands; at a metered door the one
            that reads the body.
    """

    door: Door
    method: str
    route: str
    path: str
    errors: Dialect


def entry_of(head: RequestHead) -> Entry:
    """Return the door that *head* came in by."""
    before, _, query = head.path.partition("?")
    path = before.partition("#")[0]
    if len(before) > MAX_PATH_CHARS or _is_too_long(query):
        errors = default_dialect(path[:MAX_PATH_CHARS], head.headers)
        return Entry(Door.TOO_LONG, head.method, "opaque", path, errors)
    dialect, counting = dialect_of(head.path, head.headers), counting_dialect(path)
    door, route = _door(head.method, path, dialect, counting)
    errors = dialect or counting or default_dialect(path, head.headers)
    return Entry(door, head.method, route, path, errors)


def _is_too_long(query: str) -> bool:
    return len(query) > MAX_QUERY_CHARS or query.count("&") >= MAX_QUERY_MEMBERS


def _door(
    method: str, path: str, dialect: Dialect | None, counting: Dialect | None
) -> tuple[Door, str]:
    if _ESCAPED_SLASH.search(path) and not (dialect or counting):
        return Door.LOOKALIKE, "opaque"
    if method in BODILESS_METHODS:
        return _bodiless_door(method, path, called=bool(dialect or counting))
    if method == "POST" and path in TOKEN_FREE_PATHS:
        return Door.TOKEN_FREE, TOKEN_FREE_PATHS[path]
    if method == "POST" and dialect is not None:
        return Door.METERED, dialect.route
    if method == "POST" and counting is not None:
        return Door.TOKEN_FREE, COUNTING_ROUTE
    return Door.LOOKALIKE if _is_alike(path) else Door.UNKNOWN, "opaque"


def _is_alike(path: str) -> bool:
    """Tell if some servers take *path* for one whose bodies are read."""
    plain = _as_lenient_servers_read(path)
    if dialect_of(plain) is not None or plain in TOKEN_FREE_PATHS:
        return True
    decoded = forgiven(path)
    return any(form.is_like(decoded) for form in (*METERED_FORMS, *COUNTING_FORMS))


def _bodiless_door(method: str, path: str, *, called: bool) -> tuple[Door, str]:
    if method in READ_METHODS and _MODELS.fullmatch(path) and not called:
        return Door.BODILESS, "models"
    known = method in READ_METHODS and path in HEALTH_PATHS
    return Door.BODILESS if known else Door.UNLISTED, "other"


def _as_lenient_servers_read(path: str) -> str:
    """
    Return *path* as servers take it that forgive case and what stands behind it.

    Where unknown paths pass unread, these would lead around the token limits.
    """
    plain = path.partition(";")[0].partition("%")[0]
    return plain.rstrip("/.\\").lower()
