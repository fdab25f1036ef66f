"""The request side in detail: each way in, each refusal, each end."""

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from typing import Any

import pytest

from tests.core.codings.encoders import ENCODERS
from tests.examples import (
    ACME_KEY,
    BARE_KEY,
    BARE_OPEN_KEY,
    CHAT,
    FAILURE,
    FRUGAL_KEY,
    MESSAGES,
    NOW_MS,
    OPEN_KEY,
    STATE,
    head,
    policy,
    spent,
)
from tests.playbook import play
from tests.wire import chat, messages
from tokenweir.core.budget import MAX_SPENT
from tokenweir.core.cap import Cap
from tokenweir.core.commands import (
    AwaitBody,
    Cancel,
    CountPrompt,
    Forward,
    Reject,
    Reserve,
)
from tokenweir.core.dialects import by_route
from tokenweir.core.events import (
    Counted,
    Event,
    Headers,
    LedgerFailed,
    OutOfTime,
    Refused,
    RequestBody,
    RequestHead,
    Reserved,
    StreamClosed,
    WindowsTurned,
)
from tokenweir.core.exchange import Exchange
from tokenweir.core.hold import Amounts, Denied, Granted, Hold
from tokenweir.core.partition import user_code
from tokenweir.core.policy import (
    Axis,
    Budget,
    KeyEnd,
    Model,
    OnExceeded,
    Quota,
    Secret,
    Tenant,
)
from tokenweir.core.rejection import (
    BodyTooLarge,
    Draining,
    EncodingNotMetered,
    EndedKey,
    EnvoyOutdated,
    InternalFault,
    LedgerUnavailable,
    Malformed,
    ModelNotAllowed,
    ModelUnpriced,
    PathNotMetered,
    PathTooLong,
    QuotaExhausted,
    Rejection,
    RouteNotAllowed,
    UnknownKey,
    Unsatisfiable,
)
from tokenweir.core.request_side import LEDGER_OPEN, RETRY_MS, Arrival, RequestSide
from tokenweir.core.step import State
from tokenweir.core.usage import Source
from tokenweir.core.window import Calendar, Per

ARRIVAL = Arrival(policy(), "0-19b7a0e1c00-abc")
OWN = replace(policy().providers["own"], opaque_paths=("*",))
OPAQUE = replace(
    ARRIVAL,
    policy=replace(policy(), providers={**policy().providers, "own": OWN}),
)
GRANTED = Granted("1", (STATE,), (replace(FAILURE, shadow=True),), "a lease")


def begun(request: RequestHead, arrival: Arrival = ARRIVAL) -> Exchange:
    """Return an exchange that was told *request*."""
    exchange = Exchange(arrival)
    exchange.handle(request, NOW_MS)
    return exchange


def reserving(
    body: bytes,
    *,
    tokens: int = 30,
    key: str = ACME_KEY,
    path: str = CHAT,
    arrival: Arrival = ARRIVAL,
) -> Exchange:
    """Return an exchange whose reserve is in flight."""
    exchange = begun(head("POST", path, key=key), arrival)
    exchange.handle(RequestBody(body), NOW_MS)
    exchange.handle(Counted(tokens, Source.COUNTED), NOW_MS)
    assert exchange.state is State.RESERVING
    return exchange


def side_of(exchange: Exchange) -> RequestSide:
    """Return the request side."""
    assert exchange.request is not None
    return exchange.request


def hold_of(exchange: Exchange) -> Hold:
    """Return what was asked for."""
    found = side_of(exchange).hold
    assert found is not None
    return found


def rejection_of(exchange: Exchange, event: Event) -> Rejection:
    """Return why *event* is answered with a rejection and nothing else."""
    [answer] = exchange.handle(event, NOW_MS)
    assert isinstance(answer, Reject)
    assert exchange.state is State.DONE
    assert side_of(exchange).rejection == answer.why
    return answer.why


def forwarded(exchange: Exchange) -> Forward:
    """Grant the reserve and return the answer."""
    [answer] = exchange.handle(Reserved(GRANTED), NOW_MS + 50)
    assert isinstance(answer, Forward)
    return answer


# === the head =====================================================================


def test_draining() -> None:
    """A processor that is about to leave begins nothing, whoever asks."""
    exchange = Exchange(replace(ARRIVAL, draining=True))

    assert rejection_of(exchange, head(key=None)) == Draining(RETRY_MS)


@pytest.mark.parametrize("key", [ACME_KEY, "sk-unknown"])
def test_a_path_that_is_too_long(key: str) -> None:
    """It is refused in the API's form, whoever sends it: nobody looks for a key."""
    exchange = Exchange(ARRIVAL)
    it = head(path=f"{MESSAGES}?key={'%41' * 20_000}", key=key)

    assert exchange.handle(it, NOW_MS) == [Reject(PathTooLong(), "messages")]
    assert exchange.state is State.DONE
    assert exchange.request is not None
    assert exchange.request.subject.tenant == ""


@pytest.mark.parametrize("path", [CHAT, "/v1/models", "/v1/unknown"])
@pytest.mark.parametrize("key", [None, "sk-unknown"])
def test_nobody(path: str, key: str | None) -> None:
    """Who is not known is turned away at the head: nothing is read or reserved."""
    exchange = Exchange(ARRIVAL)

    assert isinstance(rejection_of(exchange, head("POST", path, key=key)), UnknownKey)
    assert side_of(exchange).hold is None


def with_key(**changes: Any) -> Exchange:
    """Return an exchange under a policy in which acme's key has *changes*."""
    known = ARRIVAL.policy
    keys = {digest: replace(key, **changes) for digest, key in known.keys.items()}
    return Exchange(replace(ARRIVAL, policy=replace(known, keys=keys)))


def test_a_key_that_has_ended() -> None:
    """It is turned away at the head, as whose it was."""
    exchange = with_key(ends_at_ms=NOW_MS)

    assert rejection_of(exchange, head()) == EndedKey(KeyEnd.EXPIRED, NOW_MS)
    assert side_of(exchange).subject.key_id == "acme-ci"
    assert side_of(exchange).hold is None


def test_a_key_for_other_routes() -> None:
    """It is turned away before the body is asked for."""
    exchange = with_key(routes=("models",))

    assert rejection_of(exchange, head()) == RouteNotAllowed("chat_completions")


@pytest.mark.parametrize(
    ("path", "route"), [(CHAT, "chat_completions"), (MESSAGES, "messages")]
)
def test_rejections_speak_the_callers_dialect(path: str, route: str) -> None:
    """A rejection is told in the dialect of the path."""
    [answer] = Exchange(ARRIVAL).handle(head("POST", path, key=None), NOW_MS)

    assert isinstance(answer, Reject)
    assert answer.dialect == route


def test_metered_path_without_body() -> None:
    """A model call that ends with its head is malformed: no body is waited for."""
    exchange = Exchange(ARRIVAL)

    assert isinstance(rejection_of(exchange, head(ended=True)), Malformed)


@pytest.mark.parametrize("encoding", ["compress", "x", "aws-chunked", "identity, x"])
def test_unknown_encoding(encoding: str) -> None:
    """A body that can't be read can't be metered."""
    headers: Headers = (("content-encoding", encoding),)
    exchange = Exchange(ARRIVAL)

    found = rejection_of(exchange, head(headers=headers))
    assert found == EncodingNotMetered(encoding)


@pytest.mark.parametrize(("encoding", "encode"), ENCODERS.values(), ids=ENCODERS)
def test_encoded_body(encoding: str, encode: Callable[[bytes], bytes]) -> None:
    """A body that comes encoded is metered as it would be without, and stays so."""
    headers: Headers = (("content-encoding", encoding),)
    plain, exchange = begun(head()), begun(head(headers=headers))

    [expected] = plain.handle(RequestBody(chat()), NOW_MS)
    [command] = exchange.handle(RequestBody(encode(chat())), NOW_MS)

    assert isinstance(command, CountPrompt)
    assert command == expected


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (chat(), Malformed),
        (gzip.compress(chat(), mtime=0)[:-1], Malformed),
        (gzip.compress(b"no json", mtime=0), Malformed),
        (gzip.compress(b" " * 1_001, mtime=0), BodyTooLarge),
        (b"\0" * 1_001, BodyTooLarge),
    ],
)
def test_encoded_body_that_is_none(
    body: bytes, why: type[Rejection], ahead: bool
) -> None:
    """What is not what its coding says, or too much, is refused before it costs."""
    small = replace(ARRIVAL, policy=replace(policy(), body_limit_bytes=1_000))
    exchange = begun(head(headers=(("content-encoding", "gzip"),)), small)
    event = RequestBody(body)
    if ahead:
        event = side_of(exchange).read_ahead(event)

    assert isinstance(rejection_of(exchange, event), why)
    assert side_of(exchange).hold is None


@pytest.mark.parametrize("encoding", ["", " ", "identity", "Identity", " identity "])
def test_plain_body(encoding: str) -> None:
    """A body that is said not to be encoded is waited for."""
    headers: Headers = (("content-encoding", encoding),)

    play(Exchange(ARRIVAL), (head(headers=headers), [AwaitBody()]))


@pytest.mark.parametrize(
    ("method", "path", "route"),
    [
        ("GET", "/v1/models", "models"),
        ("HEAD", "/v1/models", "models"),
        ("GET", "/", "other"),
    ],
)
def test_bodiless(method: str, path: str, route: str) -> None:
    """A request without a body is held against requests and slots at once."""
    exchange = Exchange(ARRIVAL)
    [command] = exchange.handle(head(method, path, ended=True), NOW_MS)

    assert command == Reserve(hold_of(exchange))
    assert hold_of(exchange).amounts == Amounts(1, 0, 0)
    assert hold_of(exchange).subject.route == route
    assert side_of(exchange).quotas == ("acme.requests_per_minute", "acme.concurrency")


def test_bodiless_method_that_goes_on() -> None:
    """A GET whose head does not end it is waited for: it may bring no body at all."""
    exchange = begun(head("GET", "/v1/models"))
    [command] = exchange.handle(RequestBody(b""), NOW_MS)

    assert command == Reserve(hold_of(exchange))


def test_bodiless_method_with_a_body() -> None:
    """A body where none belongs is refused: nobody would meter it."""
    exchange = begun(head("GET", "/v1/models"))

    assert rejection_of(exchange, RequestBody(b"x")) == PathNotMetered("/v1/models")


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE"])
@pytest.mark.parametrize("body", [None, b"", b"x"])
def test_bodiless_on_other_paths(method: str, body: bytes | None) -> None:
    """The credential goes along, so what apps need not read is refused."""
    exchange = Exchange(ARRIVAL)
    last: Event = head(method, "/v1/files/f", ended=body is None)
    if body is not None:
        exchange.handle(last, NOW_MS)
        last = RequestBody(body)

    assert rejection_of(exchange, last) == PathNotMetered("/v1/files/f")


def test_bodiless_on_other_paths_that_may_pass() -> None:
    """Where a provider lets it pass, it is held against requests and slots."""
    exchange = Exchange(OPAQUE)
    [command] = exchange.handle(head("DELETE", "/v1/files/f", ended=True), NOW_MS)

    assert command == Reserve(hold_of(exchange))
    assert hold_of(exchange).subject.route == "other"
    with_body = begun(head("DELETE", "/v1/files/f"), OPAQUE)
    assert rejection_of(with_body, RequestBody(b"x")) == PathNotMetered("/v1/files/f")


# === counting =====================================================================

COUNT_TOKENS = f"{MESSAGES}/count_tokens"


def test_token_free() -> None:
    """Counting tokens costs none; who is asked, and by which name, is the model's."""
    exchange = begun(head("POST", COUNT_TOKENS))
    [command] = exchange.handle(RequestBody(messages("claude")), NOW_MS)

    assert command == Reserve(hold_of(exchange))
    assert hold_of(exchange).amounts == Amounts(1, 0, 0)
    assert hold_of(exchange).subject.route == "count_tokens"
    assert hold_of(exchange).subject.model == "claude"
    assert side_of(exchange).quotas == ("acme.requests_per_minute", "acme.concurrency")
    answer = forwarded(exchange)
    assert answer.body is not None
    assert json.loads(answer.body)["model"] == "claude-haiku-4-5"
    assert answer.ticket.dialect == ""
    assert not answer.strip_usage


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", Malformed),
        (b"no JSON", Malformed),
        (b"{}", Malformed),
        (messages("gpt-4o-mini"), Malformed),  # of a provider that can't count
        (messages("claude-9"), ModelNotAllowed),
    ],
)
def test_token_free_for_whom(body: bytes, why: type[Rejection]) -> None:
    """A model that could not be called can't be counted for either."""
    exchange = begun(head("POST", COUNT_TOKENS))

    assert isinstance(rejection_of(exchange, RequestBody(body)), why)
    assert side_of(exchange).hold is None


def test_token_free_without_a_body() -> None:
    """Neither no body nor one that can't be read names a model."""
    encoded = head("POST", COUNT_TOKENS, headers=(("content-encoding", "x"),))
    empty = head("POST", COUNT_TOKENS, ended=True)

    assert isinstance(rejection_of(Exchange(ARRIVAL), empty), Malformed)
    assert isinstance(rejection_of(Exchange(ARRIVAL), encoded), EncodingNotMetered)


def test_token_free_for_a_key() -> None:
    """A tenant's own list of models holds for counting as well."""
    first = policy()
    tenants = {**first.tenants, "acme": Tenant("acme", models=("gpt-*",))}
    arrival = replace(ARRIVAL, policy=replace(first, tenants=tenants))
    exchange = begun(head("POST", COUNT_TOKENS), arrival)

    found = rejection_of(exchange, RequestBody(messages("claude")))
    assert found == ModelNotAllowed("claude")


# === paths that nobody reads ======================================================


@pytest.mark.parametrize("ended", [True, False])
def test_unknown_path(ended: bool) -> None:
    """A path that nobody can meter is refused before its body is read."""
    exchange = Exchange(ARRIVAL)
    found = rejection_of(exchange, head("POST", "/v1/vector_stores", ended=ended))

    assert found == PathNotMetered("/v1/vector_stores")


@pytest.mark.parametrize("path", [CHAT, "/v1/models"])
def test_a_provider_that_envoy_knows_otherwise(path: str) -> None:
    """What would go to an address of before is refused before anything is held."""
    moved = policy()
    others = [it for key, it in moved.rendering.items() if key != "providers.openai"]
    exchange = Exchange(replace(ARRIVAL, rendered=frozenset(others)))
    method = "POST" if path == CHAT else "GET"
    [command] = exchange.handle(head(method, path, ended=method == "GET"), NOW_MS)
    if command == AwaitBody():
        [command] = exchange.handle(RequestBody(chat()), NOW_MS)

    assert command == Reject(EnvoyOutdated(RETRY_MS), "chat_completions")
    assert side_of(exchange).hold is None
    assert side_of(exchange).quotas == ()


def test_a_provider_that_envoy_knows() -> None:
    """Whatever else has changed, what Envoy knows can be called."""
    known = frozenset({policy().providers["openai"].digest})
    exchange = begun(head(), replace(ARRIVAL, rendered=known))
    [command] = exchange.handle(RequestBody(chat()), NOW_MS)

    assert isinstance(command, CountPrompt)


def test_opaque_path() -> None:
    """Where the provider lets unknown paths pass, their bodies are not waited for."""
    exchange = Exchange(OPAQUE)
    [command] = exchange.handle(head("POST", "/v1/vector_stores"), NOW_MS)

    assert command == Reserve(hold_of(exchange))
    assert hold_of(exchange).subject.provider == "own"


# === the body =====================================================================


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"{}",
        chat(model=""),
        chat(max_tokens=-2),
        chat(max_tokens="12"),
        chat(n=0),
        chat(n=10**12),
        b"[" * 20_000,
        b'{"model": NaN}',
        chat().replace(b'"gpt-4o-mini"', b"5"),
        chat().replace(b'"gpt-4o-mini"', b'"\\ud800"'),
    ],
)
def test_malformed(body: bytes) -> None:
    """What no provider could answer is told so, and reserves nothing."""
    exchange = begun(head())

    assert isinstance(rejection_of(exchange, RequestBody(body)), Malformed)
    assert side_of(exchange).hold is None


def test_unknown_model() -> None:
    """A model that the policy does not have is not forwarded."""
    exchange = begun(head())

    assert rejection_of(exchange, RequestBody(chat("gpt-9"))) == ModelNotAllowed(
        "gpt-9"
    )


@pytest.mark.parametrize(
    ("model", "counting", "tokenizer"),
    [
        ("gpt-4o-mini", "gpt-4o-mini", None),
        ("fast", "gpt-4o-mini", "o200k_base"),
        ("local-7b", "local-7b", None),
    ],
)
def test_count(model: str, counting: str, tokenizer: str | None) -> None:
    """The prompt is counted as the model that answers would."""
    body = chat(model)
    prompt = by_route("chat_completions").parse_request(body).prompt

    play(
        begun(head()),
        (RequestBody(body), [CountPrompt(prompt, counting, tokenizer)]),
    )


@pytest.mark.parametrize(
    ("members", "ceiling"),
    [
        ({}, 400),
        ({"max_tokens": 100}, 100),
        ({"max_completion_tokens": 100, "n": 3}, 300),
        ({"max_tokens": 5_000}, 1_000),
    ],
)
def test_reserve(members: dict[str, object], ceiling: int) -> None:
    """The worst case is reserved: the input, and all that may be generated."""
    exchange = begun(head())
    exchange.handle(RequestBody(chat("gpt-4o-mini", **members)), NOW_MS)
    [command] = exchange.handle(Counted(30, Source.COUNTED), NOW_MS)

    assert command == Reserve(hold_of(exchange))
    assert hold_of(exchange).id == ARRIVAL.hold_id
    assert hold_of(exchange).amounts == Amounts(1, 30, ceiling)


def test_unsatisfiable() -> None:
    """What will never fit is not even asked for."""
    exchange = begun(head())
    exchange.handle(RequestBody(chat(max_tokens=1_000)), NOW_MS)
    found = rejection_of(exchange, Counted(9_500, Source.COUNTED))

    assert isinstance(found, Unsatisfiable)
    assert found.requested == 10_500
    assert side_of(exchange).hold is None


def test_body_does_not_choose_the_payer() -> None:
    """Whatever a body says of users and teams: the key's tenant pays."""
    body = chat(
        user="victim",
        metadata={"user_api_key_team_id": "open", "tenant": "open"},
        tenant="open",
    )
    subject = hold_of(reserving(body)).subject

    assert (subject.tenant, subject.key_id) == ("acme", "acme-ci")
    assert subject.user == "victim"
    assert hold_of(reserving(body)).parts == hold_of(reserving(chat())).parts


def test_users_of_one_key_alternate() -> None:
    """A key's tenant and limits are the same whoever uses it."""
    holds = [hold_of(reserving(chat(user=user))) for user in ("ann", "bob", "ann")]

    assert [entry.subject.user for entry in holds] == ["ann", "bob", "ann"]
    assert len({entry.parts for entry in holds}) == 1


def test_a_user_is_told_the_name_that_they_gave() -> None:
    """The ledger's limits go by a hash; a refusal tells its caller their own id."""
    exchange = reserving(chat(user="ann"))
    partition = f"tenant=acme,user={user_code('acme', 'ann')}"
    failure = replace(FAILURE, partition=partition)
    exchange.handle(Refused(Denied("1", (failure,))), NOW_MS)

    rejection = side_of(exchange).rejection
    assert isinstance(rejection, QuotaExhausted)
    assert rejection.failures[0].partition == "tenant=acme,user=ann"


# === the ledger's word ============================================================


def test_ticket() -> None:
    """The ticket has all that the response side needs."""
    exchange = reserving(chat("fast", max_tokens=100, n=2))
    ticket = forwarded(exchange).ticket

    assert ticket.hold == hold_of(exchange)
    assert ticket.started_ms == NOW_MS
    assert ticket.method == "POST"
    assert ticket.dialect == "chat_completions"
    assert (ticket.counting_model, ticket.tokenizer) == ("gpt-4o-mini", "o200k_base")
    assert ticket.output_cap == 200
    assert ticket.choices == 2
    assert ticket.max_output_tokens is None  # a default of ours is no knowledge
    assert ticket.states == GRANTED.states
    assert ticket.hold.lease == GRANTED.lease == "a lease"
    assert ticket.shadowed == side_of(exchange).shadowed == GRANTED.shadowed
    assert ticket.flags == ()


def test_ticket_without_a_cap() -> None:
    """Who sets no cap has none: what was reserved is no cap."""
    assert forwarded(reserving(chat())).ticket.output_cap is None


def test_ticket_of_a_model_with_a_maximum() -> None:
    """A maximum that the policy names goes with the ticket: reports are judged by it."""
    snapshot = policy()
    model = replace(snapshot.models["fast"], maximum_is_known=True)
    arrival = Arrival(replace(snapshot, models={"fast": model}), "0-1-a")

    exchange = reserving(chat("fast"), arrival=arrival)
    assert forwarded(exchange).ticket.max_output_tokens == 1_000


def test_ticket_without_a_prompt() -> None:
    """Where nobody has read the request, nobody reads the response."""
    exchange = begun(head("GET", "/v1/models", ended=True))
    answer = forwarded(exchange)

    assert answer.ticket.dialect == ""
    assert answer.ticket.method == "GET"
    assert answer.body is None
    assert not answer.strip_usage


@pytest.mark.parametrize(
    ("model", "members", "strip", "edited"),
    [
        ("gpt-4o-mini", {}, False, {}),
        ("gpt-4o-mini", {"stream": False}, False, {}),
        (
            "gpt-4o-mini",
            {"stream": True, "stream_options": {"include_usage": True}},
            False,
            {},
        ),
        (
            "gpt-4o-mini",
            {"stream": True},
            True,
            {"stream_options": {"include_usage": True}},
        ),
        ("fast", {}, False, {"model": "gpt-4o-mini"}),
        (
            "fast",
            {"stream": True},
            True,
            {"model": "gpt-4o-mini", "stream_options": {"include_usage": True}},
        ),
    ],
)
def test_edits(
    model: str, members: dict[str, object], strip: bool, edited: dict[str, object]
) -> None:
    """A body is edited only by what policy and metering need, and told so."""
    body = chat(model, **members)
    answer = forwarded(reserving(body))

    assert answer.strip_usage is strip
    if not edited:
        assert answer.body is None
        return
    assert answer.body is not None
    assert json.loads(answer.body) == {**json.loads(body), **edited}


def test_anthropic_always_reports() -> None:
    """Where the provider always reports usage, nothing is asked for."""
    body = messages("claude", stream=True)
    answer = forwarded(reserving(body, path=MESSAGES))

    assert not answer.strip_usage
    assert answer.body is not None
    assert json.loads(answer.body) == {
        **json.loads(body),
        "model": "claude-haiku-4-5",
    }


def test_credential_replaces_the_key() -> None:
    """The provider gets the sidecar's credential, and no trace of the app's key."""
    answer = forwarded(reserving(chat()))
    headers = dict(answer.set_headers)

    assert isinstance(headers["authorization"], Secret)
    assert headers["x-tokenweir-cluster"] == policy().providers["openai"].cluster
    assert set(answer.remove_headers) == {
        "x-api-key",
        "api-key",
        "x-goog-api-key",
    }
    assert "CANARY" not in repr(answer)
    assert "CANARY" not in answer.ticket.to_text()


def test_refused() -> None:
    """A caller over its limits is told all of them, the longest wait first."""
    exchange = reserving(chat())
    short, long = FAILURE, replace(FAILURE, quota="acme.other", wait_ms=9_000)
    shadow = replace(FAILURE, shadow=True)
    denied = Denied("1", (short, long), (shadow,))

    found = rejection_of(exchange, Refused(denied))
    assert found == QuotaExhausted("acme", (long, short))
    assert side_of(exchange).shadowed == (shadow,)


def test_refused_without_a_reason() -> None:
    """A hold that was cancelled before it was made is denied: that is our fault."""
    found = rejection_of(reserving(chat()), Refused(Denied("1", ())))

    assert found == InternalFault(RETRY_MS)


@pytest.mark.parametrize("key", [ACME_KEY, BARE_KEY])
def test_closed_without_ledger(key: str) -> None:
    """Closed: the caller is refused, and what may have been applied is undone."""
    exchange = reserving(chat(), key=key)

    play(
        exchange,
        (
            LedgerFailed(),
            [
                Reject(LedgerUnavailable(RETRY_MS), "chat_completions"),
                Cancel(hold_of(exchange)),
            ],
        ),
    )
    assert exchange.state is State.DONE


@pytest.mark.parametrize("key", [OPEN_KEY, BARE_OPEN_KEY])
def test_open_without_ledger(key: str) -> None:
    """Open: the request goes, flagged, with a ticket to settle it by."""
    exchange = reserving(chat(), key=key)
    [answer] = exchange.handle(LedgerFailed(), NOW_MS)

    assert isinstance(answer, Forward)
    assert answer.ticket.flags == (LEDGER_OPEN,)
    assert answer.ticket.hold == hold_of(exchange)
    assert answer.ticket.states == ()


# === ends =========================================================================


@pytest.mark.parametrize("events", [[], [RequestBody(chat())]])
def test_out_of_time(events: list[Event]) -> None:
    """Before anything was reserved, giving up is only an answer."""
    exchange = begun(head())
    for event in events:
        exchange.handle(event, NOW_MS)

    assert rejection_of(exchange, OutOfTime()) == InternalFault(RETRY_MS)


@pytest.mark.parametrize(
    ("event", "cancelled"),
    [
        (Reserved(GRANTED), True),
        (LedgerFailed(), True),
        (Refused(Denied("1", (FAILURE,))), False),
    ],
)
@pytest.mark.parametrize("left_by", [OutOfTime(), StreamClosed()])
def test_abandoned(event: Event, cancelled: bool, left_by: Event) -> None:
    """What was, or may have been, granted too late to be of use is given back."""
    exchange = reserving(chat())
    exchange.handle(left_by, NOW_MS)

    play(exchange, (event, [Cancel(hold_of(exchange))] if cancelled else []))
    assert exchange.state is State.DONE


def test_out_of_time_while_reserving() -> None:
    """Envoy gets its answer before the ledger's is known."""
    exchange = reserving(chat())

    play(exchange, (OutOfTime(), [Reject(InternalFault(1_000), "chat_completions")]))
    assert side_of(exchange).rejection == InternalFault(1_000)


# === labels =======================================================================


def test_subject_grows() -> None:
    """The labels are those known so far; what was not reached is empty."""
    headers: Headers = (("x-request-id", "r-1"),)
    nobody = begun(head(key=None, headers=headers))
    known = begun(head(headers=headers))
    unplanned = begun(head(headers=headers))
    unplanned.handle(RequestBody(chat("gpt-9", user="ann")), NOW_MS)
    planned = begun(head(headers=headers))
    planned.handle(RequestBody(chat(user="ann")), NOW_MS)

    subjects = [side_of(each).subject for each in (nobody, known, unplanned, planned)]
    assert [subject.tenant for subject in subjects] == ["", "acme", "acme", "acme"]
    assert [subject.key_id for subject in subjects] == ["", *["acme-ci"] * 3]
    assert [subject.model for subject in subjects] == ["", "", "gpt-9", "gpt-4o-mini"]
    assert [subject.provider for subject in subjects] == ["", "", "", "openai"]
    assert [subject.user for subject in subjects] == ["", "", "", "ann"]
    assert {subject.route for subject in subjects} == {"chat_completions"}
    assert {subject.request_id for subject in subjects} == {"r-1"}
    assert {subject.policy for subject in subjects} == {policy().digest}


def test_hold_has_all_labels() -> None:
    """What goes to the ledger says which request and which policy it was."""
    exchange = begun(head(headers=(("x-request-id", "r-1"),)))
    exchange.handle(RequestBody(chat()), NOW_MS)
    exchange.handle(Counted(30, Source.COUNTED), NOW_MS)

    assert hold_of(exchange).subject == side_of(exchange).subject
    assert hold_of(exchange).subject.request_id == "r-1"


@pytest.mark.parametrize("spare", [1, 0, -1])
def test_body_limit_is_exact(spare: int) -> None:
    """A body of the limit is read, and one of a byte more is not."""
    body = chat()
    limit = len(body) + spare
    arrival = replace(ARRIVAL, policy=replace(policy(), body_limit_bytes=limit))
    exchange = begun(head(), arrival)
    exchange.handle(RequestBody(body), NOW_MS)

    expected = BodyTooLarge(limit) if spare < 0 else None
    assert side_of(exchange).rejection == expected


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("body", [chat(), messages(), b"{", b"", b"x" * 2_000])
def test_reading_ahead_changes_nothing(path: str, body: bytes) -> None:
    """What was read ahead is answered as what was not, refusals too."""
    arrival = replace(ARRIVAL, policy=replace(policy(), body_limit_bytes=1_000))
    exchange, ahead = (begun(head(path=path), arrival) for _ in range(2))
    event = side_of(ahead).read_ahead(RequestBody(body))

    assert (event.read is None) is (len(body) > 1_000)
    assert ahead.handle(event, NOW_MS) == exchange.handle(RequestBody(body), NOW_MS)
    assert side_of(ahead).rejection == side_of(exchange).rejection


def test_reading_ahead_where_nobody_reads() -> None:
    """A body that no dialect reads is not read ahead either."""
    exchange = begun(head(path="/v1/models"))

    assert side_of(exchange).read_ahead(RequestBody(b"{}")) == RequestBody(b"{}")


def test_request_id_is_bounded() -> None:
    """A client that chooses a long id does not fill the ledger with it."""
    exchange = begun(head(headers=(("x-request-id", "r" * 10_000),)))

    assert side_of(exchange).subject.request_id == "r" * 128


def test_quotas() -> None:
    """Which quotas apply is known as soon as there is a plan."""
    exchange = begun(head())
    assert side_of(exchange).quotas == ()

    exchange.handle(RequestBody(chat()), NOW_MS)
    assert side_of(exchange).quotas == (
        "acme.requests_per_minute",
        "acme.tokens_per_minute",
        "acme.concurrency",
    )


# === budgets ======================================================================


def refused(*quotas: str) -> Refused:
    """Return the ledger's word that these budgets are spent."""
    return Refused(Denied("1", tuple(map(spent, quotas))))


def frugal() -> Exchange:
    """Return an exchange of the tenant with budgets, whose reserve is in flight."""
    return reserving(chat(), key=FRUGAL_KEY)


def test_a_spent_budget_is_answered_by_a_cheaper_model() -> None:
    """Counted and reserved anew, under an id of its own, and sent under its name."""
    exchange = frugal()
    first = hold_of(exchange)
    [count] = exchange.handle(refused("frugal.cheaper"), NOW_MS)
    assert isinstance(count, CountPrompt)
    assert count.model == "gpt-4o-mini"  # what "fast" is upstream; claude was skipped
    exchange.handle(Counted(33, Source.COUNTED), NOW_MS)
    second = hold_of(exchange)
    [forward] = exchange.handle(Reserved(GRANTED), NOW_MS)

    assert second.id == f"{first.id}.1"
    assert second.amounts.input_tokens == 33
    assert (second.subject.model, second.subject.downgraded_from) == (
        "fast",
        "gpt-4o-mini",
    )
    relaxed = {
        limit.quota: limit.most for part in second.parts for limit in part.limits
    }
    assert relaxed["frugal.cheaper"] == MAX_SPENT
    assert relaxed["frugal.slower"] == 50_000
    assert isinstance(forward, Forward)
    assert forward.ticket.hold == replace(second, lease=GRANTED.lease)


def test_a_cheaper_model_is_written_into_the_body() -> None:
    """The rest of the body keeps every byte."""
    cheap = Model("cheap", "openai", None, 1_000, 400)
    given = policy()
    chain = tuple(
        replace(quota, budget=replace(quota.budget, downgrade_to=("cheap",)))
        if quota.budget and quota.budget.downgrade_to
        else quota
        for quota in given.tenants["frugal"].quotas
    )
    arrival = replace(
        ARRIVAL,
        policy=replace(
            given,
            models={**given.models, "cheap": cheap},
            tenants={**given.tenants, "frugal": Tenant("frugal", chain)},
        ),
    )
    exchange = reserving(chat(), key=FRUGAL_KEY, arrival=arrival)
    for event in (refused("frugal.cheaper"), Counted(33, Source.COUNTED)):
        exchange.handle(event, NOW_MS)
    [forward] = exchange.handle(Reserved(GRANTED), NOW_MS)

    assert isinstance(forward, Forward)
    assert forward.body == chat().replace(b"gpt-4o-mini", b"cheap")


def test_a_throttled_caller_is_held_against_slower_rates() -> None:
    """The model stays, and so does what was counted."""
    exchange = frugal()
    [reserve] = exchange.handle(refused("frugal.slower"), NOW_MS)

    assert isinstance(reserve, Reserve)
    rates = {
        limit.quota: limit.rate for part in reserve.hold.parts for limit in part.limits
    }
    assert rates["frugal.slower.frugal.tokens_per_minute"] == 2_500
    assert reserve.hold.subject.downgraded_from == ""


@pytest.mark.parametrize(
    "quotas", [("frugal.block",), ("frugal.cheaper", "frugal.block")]
)
def test_any_other_failure_refuses(quotas: tuple[str, ...]) -> None:
    """A budget that blocks blocks, whatever the others would do."""
    why = rejection_of(frugal(), refused(*quotas))

    assert isinstance(why, QuotaExhausted)
    assert why.is_budget
    assert {failure.quota for failure in why.failures} == set(quotas)


def test_windows_of_the_ledgers_present() -> None:
    """A processor whose clock is off asks again, once."""
    exchange = frugal()
    later_ms = NOW_MS + 5 * 86_400_000
    [reserve] = exchange.handle(WindowsTurned(later_ms), NOW_MS)

    assert isinstance(reserve, Reserve)
    turns = [limit.turns for part in reserve.hold.parts for limit in part.limits]
    assert all(not each or each[1] <= later_ms < each[2] for each in turns)
    why = rejection_of(exchange, WindowsTurned(later_ms))
    assert why == InternalFault(RETRY_MS)


def test_a_model_without_a_price_is_refused_where_money_is_limited() -> None:
    """Nothing is reserved, and nobody is asked (B06)."""
    given = policy()
    day = Budget(Calendar(Per.DAY, UTC))
    money = Quota("frugal.money", Axis.BUDGET_USD, 0, 10**9, budget=day)
    arrival = replace(
        ARRIVAL,
        policy=replace(
            given, tenants={**given.tenants, "frugal": Tenant("frugal", (money,))}
        ),
    )
    exchange = begun(head(key=FRUGAL_KEY), arrival)
    exchange.handle(RequestBody(chat()), NOW_MS)
    why = rejection_of(exchange, Counted(30, Source.COUNTED))

    assert why == ModelUnpriced("gpt-4o-mini", "model")


DAY = Budget(Calendar(Per.DAY, UTC))
FOR_CHEAP = {
    "without a price": Quota(
        "frugal.money", Axis.BUDGET_USD, 0, 10**9, budget=DAY, models=("cheap",)
    ),
    "too small": Quota(
        "frugal.few", Axis.TOKENS, 1, 9, models=("cheap",), partition=("tenant",)
    ),
}


def down_to(*chain: str, quota: Quota) -> Exchange:
    """Return an exchange with *quota* besides, whose spent budget has this *chain*."""
    given = policy()
    quotas = tuple(
        replace(each, budget=replace(each.budget, downgrade_to=chain))
        if each.budget and each.budget.downgrade_to
        else each
        for each in given.tenants["frugal"].quotas
    )
    cheap = Model("cheap", "openai", None, 1_000, 400)
    changed = replace(
        given,
        models={**given.models, "cheap": cheap},
        tenants={**given.tenants, "frugal": Tenant("frugal", (*quotas, quota))},
    )
    arrival = replace(ARRIVAL, policy=changed)
    return reserving(chat(max_tokens=20), key=FRUGAL_KEY, arrival=arrival)


@pytest.mark.parametrize("name", FOR_CHEAP)
def test_what_can_not_take_its_place_is_passed_over(name: str) -> None:
    """The app asked for none of them: the next one of the chain answers."""
    exchange = down_to("cheap", "fast", quota=FOR_CHEAP[name])
    exchange.handle(refused("frugal.cheaper"), NOW_MS)
    [count] = exchange.handle(Counted(30, Source.COUNTED), NOW_MS)
    [reserve] = exchange.handle(Counted(31, Source.COUNTED), NOW_MS)

    assert isinstance(count, CountPrompt)
    assert isinstance(reserve, Reserve)
    assert reserve.hold.subject.model == "fast"
    assert reserve.hold.amounts.input_tokens == 31


@pytest.mark.parametrize("name", FOR_CHEAP)
def test_without_another_model_the_spent_budget_refuses(name: str) -> None:
    """And not one that the app never named, for reasons that are none of its own."""
    exchange = down_to("cheap", quota=FOR_CHEAP[name])
    exchange.handle(refused("frugal.cheaper"), NOW_MS)
    why = rejection_of(exchange, Counted(30, Source.COUNTED))

    assert isinstance(why, QuotaExhausted)
    assert [failure.quota for failure in why.failures] == ["frugal.cheaper"]


@pytest.mark.parametrize(
    ("others", "is_told"), [((), True), (("frugal.block",), False)]
)
def test_what_no_window_holds_need_not_wait(
    others: tuple[str, ...], *, is_told: bool
) -> None:
    """
    Where nothing can take the model's place. Another quota that failed may be what kept
    a cheaper model from it: that passes.
    """
    exchange = down_to("claude", quota=FOR_CHEAP["too small"])
    huge = replace(spent("frugal.cheaper"), requested=50_001)
    denied = Denied("1", (huge, *map(spent, others)))
    why = rejection_of(exchange, Refused(denied))

    assert isinstance(why, Unsatisfiable if is_told else QuotaExhausted)


def test_what_no_hard_limit_holds_need_not_wait() -> None:
    """A budget that throttles ends what it never can hold as one that blocks does."""
    slower = Budget(
        Calendar(Per.DAY, UTC),
        OnExceeded.THROTTLE,
        throttle_percent=25,
        hard_limit=40,
    )
    quotas = (
        Quota("frugal.tokens_per_minute", Axis.TOKENS, 10_000, 10_000),
        Quota("frugal.slower", Axis.BUDGET_TOKENS, 0, 35, budget=slower),
    )
    given = policy()
    tenants = {**given.tenants, "frugal": Tenant("frugal", quotas)}
    arrival = replace(ARRIVAL, policy=replace(given, tenants=tenants))
    exchange = reserving(chat(max_tokens=20), key=FRUGAL_KEY, arrival=arrival)
    failure = replace(spent("frugal.slower"), capacity=35, requested=50)
    why = rejection_of(exchange, Refused(Denied("1", (failure,))))

    assert isinstance(why, Unsatisfiable)
    assert (why.quota, why.capacity, why.requested) == ("frugal.slower", 40, 50)


# === caps =========================================================================


def under(*caps: Cap, **models: Model) -> Arrival:
    """Return an arrival under a policy with *caps*, and other *models*."""
    known = {**policy().models, **{model.name: model for model in models.values()}}
    return replace(ARRIVAL, policy=replace(policy(), caps=caps, models=known))


def test_a_cap_is_reserved_written_and_told() -> None:
    """The reserve is by the policy's cap, and so is the body, else untouched."""
    sent = chat(max_tokens=900, temperature=1.0)
    exchange = reserving(sent, key=BARE_KEY, arrival=under(Cap(300, 200)))
    hold, forward = hold_of(exchange), forwarded(exchange)

    assert hold.amounts == Amounts(1, 30, 300)
    assert (hold.subject.capped_from, hold.subject.output_cap) == ("900", "300")
    assert forward.body == sent.replace(b"900", b"300")
    assert forward.ticket.output_cap == 300


def test_a_cap_is_set_where_the_app_has_none() -> None:
    """It is reserved, too: in place of what models are expected to write."""
    exchange = reserving(chat(n=2), key=BARE_KEY, arrival=under(Cap(300, 200)))
    hold = hold_of(exchange)

    assert hold.amounts.output_tokens == 2 * 200
    assert (hold.subject.capped_from, hold.subject.output_cap) == ("unset", "200")


def test_a_lower_cap_of_the_app_stays() -> None:
    """There is nothing to tell then."""
    exchange = reserving(chat(max_tokens=50), key=BARE_KEY, arrival=under(Cap(300)))
    hold = hold_of(exchange)

    assert hold.amounts.output_tokens == 50
    assert (hold.subject.capped_from, hold.subject.output_cap) == ("", "")
    assert forwarded(exchange).body is None


def test_a_cap_that_no_limit_holds() -> None:
    """What the policy sets alone never makes a request unsatisfiable."""
    exchange = reserving(chat(), tokens=9_500, arrival=under(Cap(900)))

    assert hold_of(exchange).amounts == Amounts(1, 9_500, 500)


def test_a_downgrade_and_a_cap_together() -> None:
    """The cap is that of the model that answers, within what it can generate."""
    cheap = Model("fast", "openai", "small", 500, 400, maximum_is_known=True)
    large = Model("gpt-4o-mini", "openai", None, 9_000, 400)
    caps = Cap(800, models=("fast",)), Cap(2_000)
    exchange = reserving(
        chat(max_tokens=5_000),
        key=FRUGAL_KEY,
        arrival=under(*caps, fast=cheap, large=large),
    )
    first = hold_of(exchange).subject
    for event in (refused("frugal.cheaper"), Counted(33, Source.COUNTED)):
        exchange.handle(event, NOW_MS)
    second, forward = hold_of(exchange), forwarded(exchange)

    assert first.output_cap == "2000"
    assert (second.subject.capped_from, second.subject.output_cap) == ("5000", "500")
    assert second.amounts.output_tokens == 500
    assert forward.body == chat(model="small", max_tokens=500)
    assert forward.ticket.instead_of == ("openai", "gpt-4o-mini")


def test_a_cap_without_room_to_think_refuses() -> None:
    """Before anything is counted or held."""
    thinking = {"type": "enabled", "budget_tokens": 4_000}
    body = messages(thinking=thinking).replace(b": 100,", b": 8000,")
    exchange = begun(head("POST", MESSAGES, key=BARE_KEY), under(Cap(1_000)))
    why = rejection_of(exchange, RequestBody(body))

    assert isinstance(why, Malformed)
    assert why.param == "thinking.budget_tokens"


def test_counting_tokens_has_no_cap() -> None:
    """There is no answer that could be long, and providers refuse a cap there."""
    path = "/v1/messages/count_tokens"
    exchange = begun(head("POST", path, key=BARE_KEY), under(Cap(10)))
    exchange.handle(RequestBody(messages(model="claude")), NOW_MS)

    assert forwarded(exchange).body == messages(model="claude-haiku-4-5")
    assert hold_of(exchange).subject.output_cap == ""
