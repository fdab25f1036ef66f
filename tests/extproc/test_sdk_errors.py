"""What the providers' own SDKs make of refusals."""

import json

import anthropic
import httpx2
import openai
import pytest

from tests.extproc.rejections import (
    ANTHROPIC,
    OPENAI,
    OVER_TPM,
    anthropic_error,
    openai_error,
)
from tokenweir.core.policy import Axis
from tokenweir.core.rejection import (
    BodyTooLarge,
    Draining,
    EncodingNotMetered,
    InternalFault,
    LedgerUnavailable,
    Malformed,
    ModelNotAllowed,
    QuotaExhausted,
    QuotaFailure,
    Rejection,
    UnknownKey,
)
from tokenweir.extproc.messages import LocalReply
from tokenweir.extproc.respond import respond


def answer(reply: LocalReply) -> httpx2.Response:
    """Return *reply* as a client gets it."""
    return httpx2.Response(
        reply.status, headers=list(reply.headers), content=reply.body
    )


def openai_client(*replies: httpx2.Response, retries: int = 0) -> openai.OpenAI:
    """Return OpenAI's SDK with *replies* for a server."""
    queue = list(replies)
    transport = httpx2.MockTransport(lambda _: queue.pop(0))
    return openai.OpenAI(
        api_key="sk-test",
        base_url="http://127.0.0.1:4000/v1",
        max_retries=retries,
        http_client=httpx2.Client(transport=transport),
    )


def anthropic_client(
    *replies: httpx2.Response, retries: int = 0
) -> anthropic.Anthropic:
    """Return Anthropic's SDK with *replies* for a server."""
    queue = list(replies)
    transport = httpx2.MockTransport(lambda _: queue.pop(0))
    return anthropic.Anthropic(
        api_key="sk-test",
        base_url="http://127.0.0.1:4000",
        max_retries=retries,
        http_client=httpx2.Client(transport=transport),
    )


def ask_openai(client: openai.OpenAI) -> object:
    """Make a call with OpenAI's SDK."""
    return client.chat.completions.create(
        model="gpt-4o-mini", messages=[{"role": "user", "content": "hi"}]
    )


def ask_anthropic(client: anthropic.Anthropic) -> object:
    """Make a call with Anthropic's SDK."""
    return client.messages.create(
        model="claude-test",
        max_tokens=8,
        messages=[{"role": "user", "content": "hi"}],
    )


@pytest.mark.parametrize(
    ("rejection", "error"),
    [
        (OVER_TPM, openai.RateLimitError),
        (Malformed("no"), openai.BadRequestError),
        (UnknownKey("no"), openai.AuthenticationError),
        (ModelNotAllowed("m"), openai.PermissionDeniedError),
        (BodyTooLarge(8), openai.APIStatusError),
        (InternalFault(1), openai.InternalServerError),
        (LedgerUnavailable(1), openai.InternalServerError),
    ],
)
def test_openai_sdk_errors(
    rejection: Rejection, error: type[openai.APIStatusError]
) -> None:
    """OpenAI's SDK raises the error of its own class, with our code and message."""
    reply = respond(rejection, OPENAI)
    with pytest.raises(error) as raised:
        ask_openai(openai_client(answer(reply)))

    expected = openai_error(reply)
    assert raised.value.code == expected["code"]
    assert raised.value.type == expected["type"]
    assert raised.value.param == expected["param"]
    assert raised.value.body == expected
    assert expected["message"] in raised.value.message


@pytest.mark.parametrize(
    ("rejection", "error"),
    [
        (OVER_TPM, anthropic.RateLimitError),
        (Malformed("no"), anthropic.BadRequestError),
        (UnknownKey("no"), anthropic.AuthenticationError),
        (ModelNotAllowed("m"), anthropic.PermissionDeniedError),
        (BodyTooLarge(8), anthropic.APIStatusError),
        (InternalFault(1), anthropic.InternalServerError),
        (LedgerUnavailable(1), anthropic.InternalServerError),
    ],
)
def test_anthropic_sdk_errors(
    rejection: Rejection, error: type[anthropic.APIStatusError]
) -> None:
    """Anthropic's SDK raises the error of its own class, with our message."""
    reply = respond(rejection, ANTHROPIC)
    with pytest.raises(error) as raised:
        ask_anthropic(anthropic_client(answer(reply)))

    expected = anthropic_error(reply)
    assert raised.value.api_message == expected["message"]
    assert raised.value.type == expected["type"]
    assert raised.value.body == json.loads(reply.body)


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the seconds that the SDKs sleep before they retry; none is slept."""
    seconds: list[float] = []
    monkeypatch.setattr("time.sleep", seconds.append)
    return seconds


def test_openai_sdk_waits_as_told(naps: list[float]) -> None:
    """OpenAI's SDK retries after the true wait, to the millisecond."""
    done = httpx2.Response(200, json={"id": "x", "choices": [], "object": "x"})
    client = openai_client(answer(respond(OVER_TPM, OPENAI)), done, retries=1)
    ask_openai(client)

    assert naps == [8.2]


def test_anthropic_sdk_waits_as_told(naps: list[float]) -> None:
    """Anthropic's SDK retries after the true wait, to the millisecond."""
    done = httpx2.Response(200, json={"id": "x", "content": [], "type": "message"})
    client = anthropic_client(answer(respond(OVER_TPM, ANTHROPIC)), done, retries=1)
    ask_anthropic(client)

    assert naps == [8.2]


@pytest.mark.parametrize(
    "rejection",
    [
        QuotaExhausted(
            "acme", (QuotaFailure("q", Axis.TOKENS, "", 1, 1, 0, 1, 10**7),)
        ),
        Malformed("no"),
        EncodingNotMetered("snappy"),
    ],
)
def test_sdks_do_not_retry_in_vain(naps: list[float], rejection: Rejection) -> None:
    """What no wait helps, or only a very long one, goes to the app at once."""
    with pytest.raises(openai.APIStatusError):
        ask_openai(openai_client(answer(respond(rejection, OPENAI)), retries=2))
    with pytest.raises(anthropic.APIStatusError):
        ask_anthropic(
            anthropic_client(answer(respond(rejection, ANTHROPIC)), retries=2)
        )

    assert naps == []


def test_sdks_ride_over_trouble_of_ours(naps: list[float]) -> None:
    """A processor that drains or lost its ledger is retried after the told second."""
    for rejection in (Draining(1_000), LedgerUnavailable(1_000), InternalFault(1_000)):
        done = httpx2.Response(200, json={"id": "x", "choices": [], "object": "x"})
        ask_openai(openai_client(answer(respond(rejection, OPENAI)), done, retries=1))

    assert naps == [1.0, 1.0, 1.0]
