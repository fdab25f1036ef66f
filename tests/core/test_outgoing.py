"""What a request looks like on its way to the provider."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.examples import CHAT, MESSAGES, NOW_MS, PROVIDER_KEY, head, hold, policy
from tests.wire import chat, messages
from tokenweir.core.admission import Plan, Target
from tokenweir.core.caps import NO_CAP, OutputCap
from tokenweir.core.commands import Forward
from tokenweir.core.events import RequestBody
from tokenweir.core.hold import Granted
from tokenweir.core.identify import entry_of
from tokenweir.core.outgoing import (
    CLUSTER_HEADER,
    TIMEOUT_HEADER,
    Admitted,
    Incoming,
    forward,
    outgoing_headers,
)
from tokenweir.core.policy import Model, OnLedgerFailure, Provider, Secret
from tokenweir.core.prompt_parts import parts_of

POLICY = policy()
MODEL = Model("cheap", "openai", None, 16_384, 4_096)


def target_of(provider: str, model: str | None = None) -> Target:
    """Return a target of the policy."""
    return Target(POLICY.providers[provider], POLICY.models[model] if model else None)


def revealed(headers: Iterable[tuple[str, str | Secret]]) -> dict[str, str]:
    """Return *headers* as they are sent."""
    return {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in headers
    }


@pytest.mark.parametrize(
    ("provider", "header", "value", "removed"),
    [
        (
            "openai",
            "authorization",
            f"Bearer {PROVIDER_KEY}",
            {"x-api-key", "api-key", "x-goog-api-key"},
        ),
        (
            "anthropic",
            "x-api-key",
            PROVIDER_KEY,
            {"authorization", "api-key", "x-goog-api-key"},
        ),
        (
            "azure",
            "api-key",
            PROVIDER_KEY,
            {"authorization", "x-api-key", "x-goog-api-key"},
        ),
        (
            "gemini",
            "x-goog-api-key",
            PROVIDER_KEY,
            {"authorization", "x-api-key", "api-key"},
        ),
        (
            "bedrock",
            "authorization",
            f"Bearer {PROVIDER_KEY}",
            {
                *("x-api-key", "api-key", "x-goog-api-key"),
                *("x-amz-security-token", "x-amz-date", "x-amz-content-sha256"),
            },
        ),
    ],
)
def test_credential(provider: str, header: str, value: str, removed: set[str]) -> None:
    """The provider gets its own credential, and no header that could hold the app's."""
    target = Target(replace(POLICY.providers["openai"], dialect=provider))
    changes, removals = outgoing_headers(POLICY, target, "messages")

    assert revealed(changes)[header] == value
    assert set(removals) == removed
    assert PROVIDER_KEY not in repr(changes)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("name", ["authorization", "x-api-key", "api-key"])
def test_apps_key_is_not_forwarded(provider: str, name: str) -> None:
    """Every header that may prove who pays is replaced or taken out."""
    changes, removals = outgoing_headers(POLICY, target_of(provider), "messages")
    replaced = {header for header, _ in changes}

    assert (name in replaced) != (name in removals)


def test_without_credential() -> None:
    """Without a credential of its own the sidecar leaves the app's headers alone."""
    changes, removals = outgoing_headers(POLICY, target_of("own"), "chat_completions")

    own = POLICY.providers["own"].cluster
    assert revealed(changes) == {CLUSTER_HEADER: own, TIMEOUT_HEADER: "slow"}
    assert removals == ()


@pytest.mark.parametrize(
    ("model", "route", "timeout"),
    [
        ("fast", "chat_completions", "quick"),
        ("gpt-4o-mini", "chat_completions", "slow"),
        ("gpt-4o-mini", "messages", "default"),
        (None, "chat_completions", "slow"),
        (None, "models", "default"),
    ],
)
def test_timeout_class(model: str | None, route: str, timeout: str) -> None:
    """The model's timeout class, else the route's, else the default."""
    changes, _ = outgoing_headers(POLICY, target_of("openai", model), route)

    assert revealed(changes)[TIMEOUT_HEADER] == timeout
    assert revealed(changes)[CLUSTER_HEADER] == POLICY.providers["openai"].cluster


def test_app_cannot_choose_the_route() -> None:
    """Our routing headers are always set, so that an app's own never count."""
    for provider in POLICY.providers.values():
        changes, _ = outgoing_headers(POLICY, Target(provider), "other")

        assert {CLUSTER_HEADER, TIMEOUT_HEADER} <= {name for name, _ in changes}


def sent_to(path: str, upstream_model: str | None) -> Forward:
    """Return what becomes of a request to *path* of a model by another name or not."""
    request_head = head("POST", path)
    entry = entry_of(request_head)
    body = b'{"messages":[],"model":"x"}'
    request = entry.errors.parse_request(body)
    incoming = Incoming(
        request_head, entry, NOW_MS, request, RequestBody(body, request)
    )
    model = replace(MODEL, upstream_model=upstream_model)
    target = Target(POLICY.providers["openai"], model, request.model)
    plan = Plan(target, hold().subject, (), OnLedgerFailure.CLOSED)
    return forward(incoming, Admitted(POLICY, plan, hold(), Granted("1")))


@pytest.mark.parametrize(
    ("upstream_model", "path"),
    [(None, None), ("b", "/openai/deployments/b/chat/completions?api-version=1")],
)
def test_a_model_in_the_path(upstream_model: str | None, path: str | None) -> None:
    """Where the path names the model, it is renamed there, and only if it has to be."""
    sent = sent_to(
        "/openai/deployments/a/chat/completions?api-version=1", upstream_model
    )

    assert dict(sent.set_headers).get(":path") == path
    assert sent.body in (None, b'{"messages":[],"model":"x"}')


def test_a_model_in_the_body() -> None:
    """Where the body names it, the path stays as it came."""
    sent = sent_to("/openai/v1/chat/completions?a=b", "b")

    assert ":path" not in dict(sent.set_headers)
    assert sent.body == b'{"messages":[],"model":"b"}'


BODY = chat()[:-1] + b',"max_tokens":5000, "n":2}'


def forwarded(cap: OutputCap, provider: Provider | None = None) -> Forward:
    """Return what becomes of `BODY` under *cap*, at the app's own model."""
    request_head = head("POST", CHAT)
    entry = entry_of(request_head)
    request = entry.errors.parse_request(BODY)
    incoming = Incoming(request_head, entry, NOW_MS, request, RequestBody(BODY))
    target = Target(provider or POLICY.providers["openai"], MODEL, request.model)
    plan = Plan(target, hold().subject, (), OnLedgerFailure.CLOSED, cap=cap)
    return forward(incoming, Admitted(POLICY, plan, hold(), Granted("1")))


def test_a_cap_is_written_where_the_app_has_its_own() -> None:
    """In its spelling, and no other byte is touched; what was told is on the ticket."""
    sent = forwarded(OutputCap(5_000, 300, expected=5_000))

    assert sent.body == BODY.replace(b"5000", b"300")
    assert (sent.ticket.output_cap, sent.ticket.expected_tokens) == (600, 5_000)


def test_without_a_change_the_body_stays() -> None:
    """Whatever spelling the provider would need for another cap."""
    provider = replace(POLICY.providers["openai"], output_cap_field="max_tokens")
    sent = forwarded(OutputCap(5_000, 5_000), provider)

    assert sent.body is None
    assert sent.ticket.output_cap == 10_000
    assert forwarded(NO_CAP).ticket.output_cap == 10_000


@pytest.mark.parametrize(
    ("field", "name"),
    [(None, b"max_completion_tokens"), ("max_tokens", b"max_tokens")],
)
def test_a_cap_that_the_app_has_not(field: str | None, name: bytes) -> None:
    """It is written in the spelling that the provider knows."""
    request_head = head("POST", CHAT)
    entry = entry_of(request_head)
    request = entry.errors.parse_request(chat())
    provider = replace(POLICY.providers["openai"], output_cap_field=field)
    plan = Plan(
        Target(provider, MODEL, request.model),
        hold().subject,
        (),
        OnLedgerFailure.CLOSED,
        cap=OutputCap(None, 200),
    )
    incoming = Incoming(request_head, entry, NOW_MS, request, RequestBody(chat()))
    sent = forward(incoming, Admitted(POLICY, plan, hold(), Granted("1")))

    assert sent.body == chat()[:-1] + b',"' + name + b'":200}'


@pytest.mark.parametrize("asks", [True, False])
def test_a_stream_is_asked_for_its_usage(asks: bool) -> None:
    """Unless its provider refuses to be asked: then nothing is changed or taken out."""
    request_head, body = head("POST", CHAT), chat(stream=True)
    entry = entry_of(request_head)
    request = entry.errors.parse_request(body)
    provider = replace(POLICY.providers["openai"], ask_for_usage=asks)
    target = Target(provider, MODEL, request.model)
    plan = Plan(target, hold().subject, (), OnLedgerFailure.CLOSED)
    incoming = Incoming(request_head, entry, NOW_MS, request, RequestBody(body))
    sent = forward(incoming, Admitted(POLICY, plan, hold(), Granted("1")))

    assert sent.strip_usage is asks
    added = b',"stream_options":{"include_usage":true}}'
    assert sent.body == (body[:-1] + added if asks else None)


def test_who_was_asked_is_on_the_ticket() -> None:
    """As the provider calls it: savings are told by its price."""
    request_head = head("POST", CHAT)
    entry = entry_of(request_head)
    request = entry.errors.parse_request(chat())
    asked = Target(POLICY.providers["openai"], POLICY.models["fast"], "fast")
    cheap = Target(POLICY.providers["openai"], MODEL, "cheap")
    plan = Plan(cheap, hold().subject, (), OnLedgerFailure.CLOSED, asked=asked)
    incoming = Incoming(request_head, entry, NOW_MS, request, RequestBody(chat()))
    sent = forward(incoming, Admitted(POLICY, plan, hold(), Granted("1")))

    assert sent.ticket.instead_of == ("openai", "gpt-4o-mini")
    assert sent.body == chat(model="cheap")


@pytest.mark.parametrize("keeps", [True, False])
def test_texts_of_the_prompt_go_along_if_they_may_be_kept(keeps: bool) -> None:
    """To the driver, and never into the ticket, which passes through Envoy."""
    body = chat(messages=[{"role": "system", "content": "CANARY"}])
    request_head = head("POST", CHAT)
    entry = entry_of(request_head)
    request = entry.errors.parse_request(body)
    found = parts_of(request.prompt, "acme", keeps_text=keeps)
    read = RequestBody(body, request, found.parts, found.texts)
    incoming = Incoming(request_head, entry, NOW_MS, request, read)
    target = Target(POLICY.providers["openai"], MODEL, request.model)
    plan = Plan(target, hold().subject, (), OnLedgerFailure.CLOSED)
    sent = forward(incoming, Admitted(POLICY, plan, hold(), Granted("1")))

    assert sent.ticket.prompt == found.parts
    assert "CANARY" not in sent.ticket.to_text()
    assert "CANARY" not in repr(sent)
    kept = {found.parts.parts[0].digest: "CANARY"} if keeps else {}
    assert sent.kept_texts == kept


def test_a_request_that_has_no_cap() -> None:
    """What is only expected at most was told to no provider, so it binds nobody."""
    request_head = head("POST", "/v1/images/generations")
    entry = entry_of(request_head)
    body = b'{"model":"cheap","prompt":"x"}'
    request = entry.errors.parse_request(body)
    incoming = Incoming(
        request_head, entry, NOW_MS, request, RequestBody(body, request)
    )
    target = Target(POLICY.providers["openai"], MODEL, request.model)
    plan = Plan(target, hold().subject, (), OnLedgerFailure.CLOSED)
    sent = forward(incoming, Admitted(POLICY, plan, hold(), Granted("1")))

    assert request.output_cap == 6_240
    assert sent.ticket.output_cap is None
    assert sent.body is None


@pytest.mark.parametrize(
    ("query", "provider", "sent"),
    [
        ("", "openai", None),
        ("?key=CANARY", "openai", ""),
        ("?alt=sse&k%65y=CANARY&x=%20", "openai", "?alt=sse&x=%20"),
        ("?alt=sse", "openai", None),
        ("?key=CANARY", "own", None),
    ],
)
def test_a_key_in_the_query(query: str, provider: str, sent: str | None) -> None:
    """The app's key goes from the query too, where the provider's takes its place."""
    path = "/v1beta/models/m:generateContent"
    request_head = head("POST", path + query)
    entry = entry_of(request_head)
    request = entry.errors.parse_request(b"{}")
    incoming = Incoming(
        request_head, entry, NOW_MS, request, RequestBody(b"{}", request)
    )
    target = Target(POLICY.providers[provider], MODEL, request.model)
    plan = Plan(target, hold().subject, (), OnLedgerFailure.CLOSED)
    changes = forward(
        incoming, Admitted(POLICY, plan, hold(), Granted("1"))
    ).set_headers

    assert dict(changes).get(":path") == (None if sent is None else path + sent)


@pytest.mark.parametrize(
    ("version", "path", "sent"),
    [
        (None, "/v1/chat/completions", None),
        ("", "/v1/chat/completions?a=/v1/", "/chat/completions?a=/v1/"),
        ("/api/v4", "/v1/chat/completions", "/api/v4/chat/completions"),
        ("/v1", "/v1/chat/completions", None),
        ("/v4", "/openai/v1/chat/completions", None),
    ],
)
def test_other_versions(version: str | None, path: str, sent: str | None) -> None:
    """A provider's paths may begin in their own way; only the beginning changes."""
    request_head = head("POST", path)
    entry = entry_of(request_head)
    request = entry.errors.parse_request(chat())
    incoming = Incoming(
        request_head, entry, NOW_MS, request, RequestBody(chat(), request)
    )
    provider = replace(POLICY.providers["openai"], version_path=version)
    target = Target(provider, MODEL, request.model)
    plan = Plan(target, hold().subject, (), OnLedgerFailure.CLOSED)
    changes = forward(
        incoming, Admitted(POLICY, plan, hold(), Granted("1"))
    ).set_headers

    assert dict(changes).get(":path") == sent


@pytest.mark.parametrize("decoded", [False, True])
@pytest.mark.parametrize("upstream_model", [None, "cheap-2"])
def test_encoded_body(decoded: bool, upstream_model: str | None) -> None:
    """What came encoded goes as it came; if it must be edited, as plain text."""
    request_head = head()
    entry = entry_of(request_head)
    body = chat()
    request = entry.errors.parse_request(body)
    event = RequestBody(body, request, decoded=decoded)
    model = replace(MODEL, name=request.model, upstream_model=upstream_model)
    target = Target(POLICY.providers["openai"], model, request.model)
    plan = Plan(target, hold().subject, (), OnLedgerFailure.CLOSED)
    told = forward(
        Incoming(request_head, entry, NOW_MS, request, event),
        Admitted(POLICY, plan, hold(), Granted("1")),
    )

    is_plain = "content-encoding" in told.remove_headers
    assert (told.body is None) is (upstream_model is None)
    assert is_plain is (decoded and told.body is not None)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/models", None),
        ("POST", f"{MESSAGES}/count_tokens", messages()),
    ],
)
def test_whose_answer_nobody_reads(method: str, path: str, body: bytes | None) -> None:
    """What costs no tokens passes as it is, with a ticket that tells no dialect."""
    request_head = head(method, path, ended=body is None)
    entry = entry_of(request_head)
    request = None if body is None else entry.errors.parse_request(body)
    incoming = Incoming(request_head, entry, NOW_MS, request, RequestBody(body or b""))
    model = replace(MODEL, name=request.model) if request else None
    target = Target(POLICY.providers["openai"], model, request.model if request else "")
    plan = Plan(target, hold().subject, (), OnLedgerFailure.CLOSED)
    sent = forward(incoming, Admitted(POLICY, plan, hold(), Granted("1")))

    assert (sent.body, sent.strip_usage) == (None, False)
    assert sent.ticket.dialect == ""
