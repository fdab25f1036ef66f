"""Who pays, and by which door a request comes."""

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import ACME_KEY, CHAT, MESSAGES, NOW_MS, OPEN_KEY, head, policy
from tokenweir.core.dialects import by_route, gemini, path_form
from tokenweir.core.events import Headers
from tokenweir.core.identify import (
    MAX_PATH_CHARS,
    MAX_QUERY_CHARS,
    MAX_QUERY_MEMBERS,
    Caller,
    Door,
    barred,
    credentials_in,
    entry_of,
    identify,
    is_key,
)
from tokenweir.core.policy import ApiKey, Axis, KeyEnd, Quota, Tenant
from tokenweir.core.rejection import EndedKey, RouteNotAllowed, UnknownKey

POLICY = policy()
GEMINI = "/v1beta/models/gemini-2.5-flash"
BEDROCK = "/model/us.anthropic.claude-sonnet-4-5-v1%3A0"


def bearer(key: str) -> tuple[str, str]:
    """Return the header in which OpenAI's SDK sends a key."""
    return ("authorization", f"Bearer {key}")


def payer(*headers: tuple[str, str]) -> str | None:
    """Return the tenant that a request with *headers* is charged to, if any."""
    caller = identify(POLICY, headers)
    return caller.tenant.name if isinstance(caller, Caller) else None


# === the key ======================================================================


@pytest.mark.parametrize(
    "header",
    [
        bearer(ACME_KEY),
        ("authorization", f"bearer {ACME_KEY}"),
        ("authorization", f"BEARER   {ACME_KEY}"),
        ("authorization", f"  Bearer {ACME_KEY}  "),
        ("authorization", ACME_KEY),
        ("x-api-key", ACME_KEY),
        ("x-api-key", f" {ACME_KEY} "),
        ("api-key", ACME_KEY),
        ("x-goog-api-key", ACME_KEY),
    ],
)
def test_where_a_key_is_found(header: tuple[str, str]) -> None:
    """A key is found wherever one of the SDKs puts it."""
    caller = identify(POLICY, (header,))

    assert caller == Caller(POLICY.tenants["acme"], ApiKey("acme-ci", "acme"))


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("authorization", ""),),
        (("authorization", "Bearer"),),
        (("authorization", "Bearer "),),
        (("authorization", "   "),),
        (("x-api-key", ""),),
        (("x-api-key", " "), ("authorization", "Bearer ")),
        (("proxy-authorization", f"Bearer {ACME_KEY}"),),
        (("cookie", f"api-key={ACME_KEY}"),),
        (("x_api_key", ACME_KEY),),
    ],
)
def test_no_key(headers: Headers) -> None:
    """Without a value in a header for keys there is no key."""
    rejection = identify(POLICY, headers)

    assert isinstance(rejection, UnknownKey)
    assert rejection.message.startswith("No API key")


@pytest.mark.parametrize(
    "header",
    [
        bearer("sk-unknown"),
        bearer(ACME_KEY.upper()),
        bearer(ACME_KEY + "x"),
        bearer(ACME_KEY[:-1]),
        bearer(f"Bearer {ACME_KEY}"),
        bearer(f"{ACME_KEY},{ACME_KEY}"),
        bearer(f"{ACME_KEY}, {OPEN_KEY}"),
        bearer(f'"{ACME_KEY}"'),
        ("authorization", f"Basic {ACME_KEY}"),
        ("authorization", f"Token {ACME_KEY}"),
        ("authorization", f"Bearer\t{ACME_KEY}"),
        ("x-api-key", f"Bearer {ACME_KEY}"),
        ("x-api-key", "\xff\x00\u1234"),
        ("x-api-key", "\ud800"),
        ("x-api-key", sha256(ACME_KEY.encode()).hexdigest()),
        ("x-api-key", "acme-ci"),
        ("x-api-key", "acme"),
    ],
)
def test_unknown_key(header: tuple[str, str]) -> None:
    """Only the exact key counts: no part, no list, no id, not its hash."""
    rejection = identify(POLICY, (header,))

    assert isinstance(rejection, UnknownKey)
    assert "not known" in rejection.message


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (f"Bearer {ACME_KEY},Bearer {ACME_KEY}", "come more than once"),
        (f"Bearer {ACME_KEY}, Bearer {OPEN_KEY}", "come more than once"),
        (f"{ACME_KEY},{ACME_KEY}", "come more than once"),
        (f"Basic {ACME_KEY}", "A key is one word"),
        (f"Bearer Bearer {ACME_KEY}", "A key is one word"),
        ("Bearer sk-unknown", "policy."),
    ],
)
def test_why_a_key_may_be_unknown(value: str, hint: str) -> None:
    """A header that came twice, or is none of ours, is told as that."""
    rejection = identify(POLICY, (("authorization", value),))

    assert isinstance(rejection, UnknownKey)
    assert rejection.message.startswith("The API key is not known")
    assert hint in rejection.message


def signed_by(key_id: str) -> str:
    """Return a header as AWS' SDKs sign with the secret of *key_id*."""
    return (
        f"AWS4-HMAC-SHA256 Credential={key_id}/20261130/us-east-1/bedrock/aws4_request, "
        "SignedHeaders=host;x-amz-date, Signature=0123456789abcdef"
    )


def test_a_key_that_signs() -> None:
    """Where a key must sign to be sent, it is a key all the same."""
    caller = identify(POLICY, (("authorization", signed_by(ACME_KEY)),))

    assert isinstance(caller, Caller)
    assert caller.tenant.name == "acme"


@pytest.mark.parametrize("value", [signed_by("AKIDCANARY"), "AWS4-HMAC-SHA256 CANARY="])
@pytest.mark.parametrize("more", [(), (("x-api-key", ACME_KEY),)])
def test_a_signature(value: str, more: Headers) -> None:
    """Who signs by another is told what to send, and no part of it is quoted."""
    rejection = identify(POLICY, (("authorization", value), *more))

    assert isinstance(rejection, UnknownKey)
    assert "AWS_BEARER_TOKEN_BEDROCK" in rejection.message
    assert "CANARY" not in rejection.message
    assert "0123456789abcdef" not in rejection.message


@pytest.mark.parametrize(
    "headers",
    [
        (bearer(ACME_KEY), ("x-api-key", OPEN_KEY)),
        (bearer(ACME_KEY), bearer(OPEN_KEY)),
        (bearer(ACME_KEY), ("api-key", "sk-unknown")),
        (("x-api-key", ACME_KEY), ("x-api-key", "sk-unknown")),
    ],
)
def test_two_keys(headers: Headers) -> None:
    """Of two different keys neither is chosen, whatever their order."""
    for presented in (headers, headers[::-1]):
        rejection = identify(POLICY, presented)

        assert isinstance(rejection, UnknownKey)
        assert "More than one" in rejection.message


@pytest.mark.parametrize(
    "headers",
    [
        (bearer(ACME_KEY), ("x-api-key", ACME_KEY)),
        (bearer(ACME_KEY), bearer(ACME_KEY)),
        (("x-api-key", ACME_KEY), ("authorization", "Bearer ")),
        (("x-api-key", ""), bearer(ACME_KEY)),
    ],
)
def test_one_key_twice(headers: Headers) -> None:
    """The same key in two places, or beside an empty one, is one key."""
    assert payer(*headers) == "acme"


def test_key_in_the_query() -> None:
    """A key in the path is no key: paths get into logs."""
    request = head("POST", f"{CHAT}?key={ACME_KEY}&api-key={ACME_KEY}", key=None)

    assert payer(*request.headers) is None
    assert ACME_KEY not in entry_of(request).path


@pytest.mark.parametrize(
    "headers",
    [
        (("x-tenant", "open"),),
        (("x-tenant", "open"), ("x-tenant", "acme")),
        (("x_tenant", "open"), ("tenant", "open")),
        (("x-tokenweir-tenant", "open"), ("x-tokenweir-hold", "1")),
        (("x-forwarded-for", "10.0.0.1"), ("forwarded", "for=10.0.0.1")),
        (("openai-organization", "open"), ("openai-project", "open")),
    ],
)
def test_headers_do_not_choose_the_payer(headers: Headers) -> None:
    """No other header has a say in who pays."""
    assert payer(*headers, bearer(ACME_KEY)) == "acme"
    assert payer(*headers) is None


def test_rejections_do_not_quote() -> None:
    """What was presented is not quoted: it may be a mistyped key."""
    for headers in (
        (bearer("sk-SECRET"),),
        (bearer("sk-SECRET"), ("api-key", "sk-SECRET2")),
    ):
        assert "SECRET" not in repr(identify(POLICY, headers))


def test_key_restrictions() -> None:
    """A caller is bound to the models of its own key."""
    digest = sha256(ACME_KEY.encode()).hexdigest()
    key = ApiKey("acme-ci", "acme", ("gpt-4o-mini",))
    caller = identify(replace(POLICY, keys={digest: key}), (bearer(ACME_KEY),))

    assert caller == Caller(POLICY.tenants["acme"], key)


def test_quotas_of_a_caller() -> None:
    """What limits a key comes before what limits its tenant."""
    own = Quota("t/k.rpm", Axis.REQUESTS, 1, 1)
    tenants = replace(own, id="t.rpm")
    caller = Caller(Tenant("t", (tenants,)), ApiKey("k", "t", quotas=(own,)))

    assert caller.quotas == (own, tenants)


def bars(path: str = CHAT, **key: Any) -> EndedKey | RouteNotAllowed | None:
    """Return why a key of that kind does not open the door of *path*, if it does not."""
    caller = Caller(POLICY.tenants["acme"], ApiKey("acme-ci", "acme", **key))
    return barred(caller, entry_of(head(path=path)), NOW_MS)


@pytest.mark.parametrize("end", [KeyEnd.EXPIRED, KeyEnd.ROTATED])
def test_a_key_ends(end: KeyEnd) -> None:
    """From its last moment on a key is refused, and not before."""
    assert bars() is None
    assert bars(ends_at_ms=NOW_MS + 1, end=end) is None
    assert bars(ends_at_ms=NOW_MS, end=end) == EndedKey(end, NOW_MS)
    assert bars(ends_at_ms=NOW_MS - 1, end=end) == EndedKey(end, NOW_MS - 1)


def test_a_revoked_key_is_refused_at_once() -> None:
    """Also where the clock of whoever revoked it is ahead of this one."""
    revoked = EndedKey(KeyEnd.REVOKED, NOW_MS + 60_000)

    assert bars(ends_at_ms=NOW_MS + 60_000, end=KeyEnd.REVOKED) == revoked


def test_routes_of_a_key() -> None:
    """A key opens the doors of its routes only; without a list, all."""
    assert bars(MESSAGES) is None
    assert bars(CHAT, routes=("chat_completions", "models")) is None
    assert bars(MESSAGES, routes=("chat_completions",)) == RouteNotAllowed("messages")
    assert bars("/v1/x", routes=("chat_completions",)) == RouteNotAllowed("opaque")


@pytest.mark.parametrize(
    "headers", [(), (bearer("anything"),), (bearer(OPEN_KEY), ("api-key", "x"))]
)
def test_single_tenant(headers: Headers) -> None:
    """In single-tenant mode everyone is that tenant, by whatever key."""
    single = replace(POLICY, single_tenant="bare")

    nobody = Caller(POLICY.tenants["bare"], ApiKey("-", "bare"))
    assert identify(single, headers) == nobody


@given(st.lists(st.tuples(st.sampled_from(["authorization", "x-api-key"]), st.text())))
def test_any_headers(headers: list[tuple[str, str]]) -> None:
    """Whatever is presented without a known key: nobody is charged."""
    assert payer(*headers) is None


# === the door =====================================================================


@pytest.mark.parametrize(
    ("method", "path", "door", "route"),
    [
        ("POST", CHAT, Door.METERED, "chat_completions"),
        ("POST", f"{CHAT}?api-version=1", Door.METERED, "chat_completions"),
        ("POST", f"{CHAT}#x", Door.METERED, "chat_completions"),
        ("POST", MESSAGES, Door.METERED, "messages"),
        ("POST", f"{MESSAGES}?beta=true", Door.METERED, "messages"),
        ("POST", f"{MESSAGES}/count_tokens", Door.TOKEN_FREE, "count_tokens"),
        ("POST", f"{MESSAGES}/count_tokens?x", Door.TOKEN_FREE, "count_tokens"),
        ("POST", f"{MESSAGES}/batches", Door.UNKNOWN, "opaque"),
        ("POST", f"/x{CHAT}", Door.UNKNOWN, "opaque"),
        ("POST", f"{CHAT}s", Door.UNKNOWN, "opaque"),
        ("POST", f"{CHAT}/", Door.LOOKALIKE, "opaque"),
        ("POST", f"{CHAT}/./.", Door.LOOKALIKE, "opaque"),
        ("POST", f"{CHAT}%20%0A", Door.LOOKALIKE, "opaque"),
        ("POST", f"{CHAT}\\", Door.LOOKALIKE, "opaque"),
        ("POST", f"{CHAT};v=1/x", Door.LOOKALIKE, "opaque"),
        ("POST", "/v1/CHAT/completions", Door.LOOKALIKE, "opaque"),
        ("POST", f"{MESSAGES.upper()}/", Door.LOOKALIKE, "opaque"),
        ("POST", "/v1/vector_stores", Door.UNKNOWN, "opaque"),
        ("POST", "/v1/moderations", Door.TOKEN_FREE, "moderations"),
        ("POST", "/v1/Moderations/", Door.LOOKALIKE, "opaque"),
        ("PUT", "/v1/moderations", Door.LOOKALIKE, "opaque"),
        ("POST", "/v1/responses/input_tokens", Door.TOKEN_FREE, "count_tokens"),
        ("POST", "/v1/models", Door.UNKNOWN, "opaque"),
        ("POST", "", Door.UNKNOWN, "opaque"),
        ("PUT", CHAT, Door.LOOKALIKE, "opaque"),
        ("PATCH", CHAT, Door.LOOKALIKE, "opaque"),
        ("post", CHAT, Door.LOOKALIKE, "opaque"),
        ("PUT", "/v1/files", Door.UNKNOWN, "opaque"),
        ("CONNECT", "", Door.UNKNOWN, "opaque"),
        ("", "", Door.UNKNOWN, "opaque"),
        ("PUT", f"{MESSAGES}/count_tokens", Door.LOOKALIKE, "opaque"),
        ("POST", f"{MESSAGES}/Count_Tokens/", Door.LOOKALIKE, "opaque"),
        ("GET", "/", Door.BODILESS, "other"),
        ("HEAD", "/health?verbose", Door.BODILESS, "other"),
        ("GET", "/healthz", Door.UNLISTED, "other"),
        ("OPTIONS", "/", Door.UNLISTED, "other"),
        ("DELETE", "/health", Door.UNLISTED, "other"),
        ("GET", CHAT, Door.UNLISTED, "other"),
        ("GET", "", Door.UNLISTED, "other"),
        ("GET", "/v1/models", Door.BODILESS, "models"),
        ("GET", "/v1/models?limit=1", Door.BODILESS, "models"),
        ("GET", "/v1/models/gpt-4o", Door.BODILESS, "models"),
        ("GET", "/v1/models/ft:gpt-4o:acme::abc", Door.BODILESS, "models"),
        ("GET", "/v1/models/meta-llama/Llama-3.3-70B@1", Door.BODILESS, "models"),
        ("GET", "/openai/models?api-version=1", Door.BODILESS, "models"),
        ("GET", "/openai/v1/models/gpt-4o", Door.BODILESS, "models"),
        ("POST", "/openai/v1/responses", Door.METERED, "responses"),
        ("POST", f"{GEMINI}:generateContent?key=k", Door.METERED, "generate_content"),
        ("POST", f"{GEMINI}:streamGenerateContent", Door.METERED, "generate_content"),
        ("GET", f"{GEMINI}:generateContent", Door.UNLISTED, "other"),
        ("GET", f"{GEMINI}:countTokens", Door.UNLISTED, "other"),
        ("HEAD", GEMINI, Door.BODILESS, "models"),
        ("POST", f"{GEMINI}:embedContent", Door.METERED, "embed_content"),
        ("POST", f"{GEMINI}:countTokens", Door.TOKEN_FREE, "count_tokens"),
        ("POST", f"{GEMINI}:generatecontent", Door.LOOKALIKE, "opaque"),
        ("POST", f"{GEMINI}%3AgenerateContent", Door.LOOKALIKE, "opaque"),
        ("POST", f"{GEMINI}:countTokens/", Door.LOOKALIKE, "opaque"),
        ("POST", f"{GEMINI}:predict", Door.UNKNOWN, "opaque"),
        ("POST", f"{BEDROCK}/converse", Door.METERED, "converse"),
        ("POST", f"{BEDROCK}/converse-stream?x", Door.METERED, "converse"),
        ("POST", f"{BEDROCK}/invoke", Door.METERED, "invoke_model"),
        ("POST", f"{BEDROCK}/count-tokens", Door.TOKEN_FREE, "count_tokens"),
        ("POST", f"{BEDROCK}/Converse", Door.LOOKALIKE, "opaque"),
        ("POST", f"{BEDROCK}%2Fconverse", Door.LOOKALIKE, "opaque"),
        ("POST", "/model/a%2F..%2Fb/converse", Door.LOOKALIKE, "opaque"),
        ("POST", "/model/a/b/converse", Door.LOOKALIKE, "opaque"),
        ("POST", f"{BEDROCK}/invoke-with-bidirectional-stream", Door.UNKNOWN, "opaque"),
        ("POST", "/async-invoke", Door.UNKNOWN, "opaque"),
        ("GET", f"{BEDROCK}/converse", Door.UNLISTED, "other"),
        ("POST", "/v1%2fchat/completions", Door.LOOKALIKE, "opaque"),
        ("GET", "/v1%5Cadmin", Door.LOOKALIKE, "opaque"),
        ("GET", "/v1/models/a%2Fb", Door.LOOKALIKE, "opaque"),
        ("GET", "/v1beta/models?pageSize=5", Door.BODILESS, "models"),
        ("GET", GEMINI, Door.BODILESS, "models"),
        ("POST", "/openai/deployments/a/embeddings?b", Door.METERED, "embeddings"),
        ("POST", "/openai/deployments/a/embeddings/", Door.LOOKALIKE, "opaque"),
        ("POST", "/OpenAI/deployments/A/embeddings", Door.LOOKALIKE, "opaque"),
        ("POST", "/openai/deployments/a/extensions", Door.UNKNOWN, "opaque"),
        ("GET", "/v1/models/", Door.UNLISTED, "other"),
        ("GET", "/v1/models/..", Door.UNLISTED, "other"),
        ("GET", "/v1/models/../files", Door.UNLISTED, "other"),
        ("GET", "/v1/models/%2e%2e/files", Door.UNLISTED, "other"),
        ("GET", "/v1/models/a;x=/../files", Door.UNLISTED, "other"),
        ("GET", "/v1/models\\..\\files", Door.UNLISTED, "other"),
        ("GET", "/v1/models/a\n", Door.UNLISTED, "other"),
        ("get", "/v1/models", Door.UNKNOWN, "opaque"),
        ("GET", "/v1/models-of-mine", Door.UNLISTED, "other"),
        ("GET", "/v1/organization/admin_api_keys", Door.UNLISTED, "other"),
        ("OPTIONS", "/v1/models", Door.UNLISTED, "other"),
        ("DELETE", "/v1/models/mine", Door.UNLISTED, "other"),
        ("HEAD", "/v1/models", Door.BODILESS, "models"),
        ("OPTIONS", CHAT, Door.UNLISTED, "other"),
        ("DELETE", "/v1/files/f", Door.UNLISTED, "other"),
    ],
)
def test_door(method: str, path: str, door: Door, route: str) -> None:
    """Method and exact path, without query, say by which door a request comes."""
    entry = entry_of(head(method, path))

    assert (entry.door, entry.route) == (door, route)
    assert "?" not in entry.path
    assert "#" not in entry.path


@pytest.mark.parametrize("route", ["chat_completions", "messages"])
def test_metered_door_has_its_dialect(route: str) -> None:
    """At a metered door errors are told in the dialect that reads the body."""
    path = {"chat_completions": CHAT, "messages": MESSAGES}[route]

    assert entry_of(head("POST", path)).errors is by_route(route)


@pytest.mark.parametrize(
    ("path", "headers", "name"),
    [
        ("/v1/models", (), "openai"),
        ("/v1/models", (("anthropic-version", "2023-06-01"),), "anthropic"),
        (f"{MESSAGES}/count_tokens", (), "anthropic"),
        ("/", (), "openai"),
    ],
)
def test_dialect_of_other_doors(path: str, headers: Headers, name: str) -> None:
    """Elsewhere path and headers tell which dialect the caller understands."""
    method = "POST" if "count_tokens" in path else "GET"

    assert entry_of(head(method, path, headers=headers)).errors.name == name


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        (f"{GEMINI}:generateContent?key=a", ["a"]),
        (f"{GEMINI}:generateContent?alt=sse&key=a%2Bb&x=1", ["a+b"]),
        (f"{GEMINI}:generateContent?k%65y=a&key=b", ["a", "b"]),
        (f"{GEMINI}:generateContent?monkey=a", []),
        (f"{GEMINI}:generateContent", []),
        ("/v1/chat/completions?key=a", []),
    ],
)
def test_a_key_in_the_query(path: str, keys: list[str]) -> None:
    """Google's API takes a key from the query; no other does."""
    it = head("POST", path)
    found = credentials_in(it, entry_of(it))

    assert [value for name, value in found if name == "x-goog-api-key"] == keys
    assert is_key("key")
    assert not is_key("Key")


# === what is too long ==============================================================


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/" + "a" * (MAX_PATH_CHARS - 1), "a"),
        (f"{CHAT}?{'x' * MAX_QUERY_CHARS}", "x"),
        (f"{CHAT}?{'&' * (MAX_QUERY_MEMBERS - 1)}", "&"),
        ("/#" + "a" * (MAX_PATH_CHARS - 2), "a"),
    ],
)
def test_what_is_too_long(method: str, path: str, more: str) -> None:
    """Paths and queries are looked at up to some length, and no further."""
    assert entry_of(head(method, path)).door is not Door.TOO_LONG
    assert entry_of(head(method, path + more)).door is Door.TOO_LONG


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (f"{GEMINI}:generateContent?{'a&' * 30_000}", "gemini"),
        (f"{MESSAGES}?{'a' * 30_000}", "anthropic"),
        (f"{BEDROCK}/converse?{'a' * 30_000}", "bedrock"),
        (f"/model/{'%41' * 20_000}/converse", "bedrock"),
        (f"/v1beta/{'%41' * 20_000}", "gemini"),
        ("/" + "%41" * 20_000, "openai"),
    ],
)
def test_errors_of_what_is_too_long(path: str, name: str) -> None:
    """Whoever sends it reads so in the form of the API that was called."""
    assert entry_of(head("POST", path)).errors.name == name


def test_what_is_looked_at_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query is read once for its dialect, and a path is decoded once for all forms."""
    decoded: list[str] = []

    def note(text: str) -> str:
        decoded.append(text)
        return text

    monkeypatch.setattr(gemini, "unquote_plus", note)
    monkeypatch.setattr(path_form, "unquote", note)
    it = head("POST", f"{GEMINI}:generateContent?{'a&' * 50}")
    credentials_in(it, entry_of(it))
    assert decoded == ["a", "", ""] * 50 + [""] * 3

    decoded.clear()
    assert entry_of(head("POST", "/" + "%41" * 600)).door is Door.UNKNOWN
    assert decoded == ["/" + "%41" * 600]
