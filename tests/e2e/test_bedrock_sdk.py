"""AWS' SDK for Bedrock, against a provider that plays exact bytes."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, cast

import anthropic
import boto3  # type: ignore[import-untyped]
import pytest
import pytest_asyncio
from anthropic import AsyncAnthropicBedrock
from botocore import UNSIGNED  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.exceptions import (  # type: ignore[import-untyped]
    ClientError,
    EventStreamError,
)

from tests import frames
from tests.cases.connection import Connection, request
from tests.cases.scene import Scene
from tests.pod import CREDENTIAL, KEY, OTHER_KEY, until
from tests.scripted_upstream import (
    LAST_CHUNK,
    End,
    Hold,
    ReceivedRequest,
    Step,
    chunk,
    head,
    reply,
)

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
ARN = f"arn:aws:bedrock:us-east-1:123456789012:inference-profile/{MODEL}"
EMBEDDER = "amazon.titan-embed-text-v2:0"
IN_PATH = MODEL.replace(":", "%3A")
USAGE = {
    "inputTokens": 10,
    "outputTokens": 12,
    "totalTokens": 126,
    "cacheReadInputTokens": 100,
    "cacheWriteInputTokens": 4,
}
SIDES = (114, 12)
WORDS = "Once upon a time there was a weir, and it was old."
ANSWER: dict[str, Any] = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Once."}]}},
    "stopReason": "end_turn",
    "usage": USAGE,
    "metrics": {"latencyMs": 5},
}
EVENTS = [
    frames.event("messageStart", {"role": "assistant", "p": "ab"}),
    frames.event(
        "contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": WORDS}}
    ),
    frames.event("contentBlockStop", {"contentBlockIndex": 0}),
    frames.event("messageStop", {"stopReason": "end_turn"}),
    frames.event("metadata", {"usage": USAGE, "metrics": {"latencyMs": 5}}),
]
STREAM_HEAD = head(
    headers=(
        ("content-type", "application/vnd.amazon.eventstream"),
        ("transfer-encoding", "chunked"),
    )
)
ASKED: list[dict[str, Any]] = [{"role": "user", "content": [{"text": "Tell me."}]}]
BODY = json.dumps({"messages": ASKED}).encode()
ANTHROPIC = {
    "anthropic_version": "bedrock-2023-05-31",
    "max_tokens": 500,
    "messages": [{"role": "user", "content": "Tell me."}],
}


def at_amazon(content: dict[str, Any]) -> None:
    """Have Bedrock run all models; globex has few requests and tokens."""
    base = content["providers"]["openai"]["base_url"]
    content["providers"] = {
        "bedrock": {
            "base_url": base,
            "dialect": "bedrock",
            "credential": "env:OPENAI_API_KEY",
        }
    }
    claude = {"provider": "bedrock", "max_output_tokens": 64_000}
    content["models"] = {
        MODEL: claude,
        ARN: claude,
        EMBEDDER: {"provider": "bedrock", "max_output_tokens": 8_000},
        "renamed": claude | {"upstream_model": ARN},
    }
    content["tenants"]["globex"]["quotas"] = [
        {"requests_per_minute": 1, "capacity": 1},
        {"tokens_per_minute": 1, "capacity": 8_000},
    ]
    content["caps"] = [{"output_tokens": 2_000, "tenants": ["acme"]}]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened() -> AsyncIterator[Scene]:
    """Give the module a pod before Bedrock."""
    async with Scene.open(adapt=at_amazon) as scene:
        yield scene


@pytest_asyncio.fixture(loop_scope="module")
async def scene(opened: Scene) -> Scene:
    """Give a test the pod with an empty ledger."""
    return await opened.clear()


@pytest.fixture
def sdk(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Give what makes an SDK's client: it signs, unless it is told not to."""
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)

    def make(key: str, secret: str = "unused", **more: Any) -> Any:
        return boto3.client(
            "bedrock-runtime",
            endpoint_url=f"http://127.0.0.1:{scene.pod.port}",
            region_name="us-east-1",
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            config=Config(retries={"total_max_attempts": 1}, read_timeout=30, **more),
        )

    return make


@pytest.fixture
def app(sdk: Callable[..., Any]) -> Callable[..., Any]:
    """Give what makes a client with a key of the gateway's, as a bearer."""

    def make(key: str = KEY) -> Any:
        # The SDK itself sends bearers' keys by TLS only.
        def send_key(request: Any, **_: Any) -> None:
            request.headers["Authorization"] = f"Bearer {key}"

        client = sdk("", signature_version=UNSIGNED)
        client.meta.events.register("before-sign.bedrock-runtime", send_key)
        return client

    return make


def stream(*events: bytes) -> list[Step]:
    """Return the steps of a whole stream of *events*."""
    return [STREAM_HEAD, *(chunk(each) for each in events), LAST_CHUNK]


def received(scene: Scene) -> ReceivedRequest:
    """Return what Bedrock got: its own key, and no other."""
    [got] = scene.upstream.requests
    assert got.header("authorization") == f"Bearer {CREDENTIAL}"
    return got


async def recorded(scene: Scene) -> dict[str, Any]:
    """Return the record of the only exchange, once it is settled."""
    await until(lambda: scene.pod.ledger.nothing_held("acme"))

    async def is_recorded() -> bool:
        return bool(await scene.pod.ledger.records())

    await until(is_recorded)
    [record] = await scene.pod.ledger.records()
    return cast("dict[str, Any]", record)


async def failed(call: Callable[..., Any], **arguments: Any) -> dict[str, Any]:
    """Return what the SDK raises as the answer to a *call* that is refused."""
    with pytest.raises(ClientError) as raised:
        await asyncio.to_thread(call, **arguments)
    return cast("dict[str, Any]", raised.value.response)


# === Converse ===================================================================


async def test_an_answer(scene: Scene, app: Callable[..., Any]) -> None:
    """What is reported is settled, cached input apart; the cap is where it belongs."""
    scene.upstream.play(reply(json.dumps(ANSWER).encode()))
    answer = await asyncio.to_thread(
        app().converse,
        modelId=MODEL,
        messages=ASKED,
        system=[{"text": "Be brief."}],
        inferenceConfig={"maxTokens": 9_000},
    )

    assert answer["output"]["message"]["content"] == [{"text": "Once."}]
    assert answer["usage"] == USAGE
    got = received(scene)
    assert got.target == f"/model/{IN_PATH}/converse"
    assert json.loads(got.body)["inferenceConfig"] == {"maxTokens": 2_000}
    await scene.ledger_shows(SIDES)
    record = await recorded(scene)
    assert (record["route"], record["model"]) == ("converse", MODEL)
    assert record["source"] == "reported"
    # 10 at 3.3 USD a million, 100 at 0.33, 4 at 4.125, 12 at 16.5
    assert int(record["cost_nanousd"]) == 280_500
    [usage] = await scene.pod.ledger.usages("acme")
    assert (usage.cached_input_tokens, usage.cache_write_tokens) == (100, 4)


async def test_a_key_that_signs(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK as it is works by plain HTTP where the key is the id that signs."""
    url = f"http://127.0.0.1:{scene.pod.port}"
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", url)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "unused")
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    scene.upstream.play(reply(json.dumps(ANSWER).encode()))
    plain = boto3.session.Session().client("bedrock-runtime")
    await asyncio.to_thread(plain.converse, modelId=MODEL, messages=ASKED)

    got = received(scene)
    assert (got.all("x-amz-date"), got.all("x-api-key")) == ([], [])
    assert KEY not in str(got.headers)
    await scene.ledger_shows(SIDES)


@pytest.mark.parametrize("model", [ARN, "renamed"])
async def test_a_profile(scene: Scene, app: Callable[..., Any], model: str) -> None:
    """A model is an ARN as well, whose slashes are a part of its name."""
    scene.upstream.play(*stream(*EVENTS))
    answer = await asyncio.to_thread(
        app().converse_stream, modelId=model, messages=ASKED
    )
    events = await asyncio.to_thread(list, answer["stream"])

    assert [next(iter(each)) for each in events] == [
        *("messageStart", "contentBlockDelta", "contentBlockStop", "messageStop"),
        "metadata",
    ]
    assert events[-1]["metadata"]["usage"] == USAGE
    encoded = ARN.replace(":", "%3A").replace("/", "%2F")
    assert received(scene).target == f"/model/{encoded}/converse-stream"
    await scene.ledger_shows(SIDES)


async def test_every_byte(scene: Scene) -> None:
    """Frames reach the app byte by byte, however they are cut on their way."""
    body = b"".join(EVENTS)
    pieces = [body[at : at + 37] for at in range(0, len(body), 37)]
    scene.upstream.play(STREAM_HEAD, *(chunk(each) for each in pieces), LAST_CHUNK)
    answer = await scene.call(BODY, path=f"/model/{IN_PATH}/converse-stream")

    assert (answer.status, answer.body) == (200, body)
    assert answer.header("content-type") == "application/vnd.amazon.eventstream"
    await scene.ledger_shows(SIDES)
    assert (await recorded(scene))["source"] == "reported"


async def test_an_error_in_a_stream(scene: Scene, app: Callable[..., Any]) -> None:
    """What a stream said before it failed is charged."""
    broken = frames.exception("throttlingException", {"message": "Too many."})
    scene.upstream.play(*stream(*EVENTS[:2], broken))
    answer = await asyncio.to_thread(
        app().converse_stream, modelId=MODEL, messages=ASKED
    )
    with pytest.raises(EventStreamError, match="throttlingException"):
        await asyncio.to_thread(list, answer["stream"])

    record = await recorded(scene)
    assert record["outcome"] == "upstream_failed"
    [(into, out_of)] = await scene.charges()
    assert (into > 0, out_of >= 10) == (True, True)


@pytest.mark.parametrize("who", ["app", "provider"])
async def test_a_cut_stream(scene: Scene, who: str) -> None:
    """Of a stream that breaks off, whoever has hung up, what passed is charged."""
    passed = asyncio.Event()
    scene.upstream.play(
        STREAM_HEAD, *(chunk(each) for each in EVENTS[:2]), Hold(passed), End.CLOSE
    )
    async with Connection.open(scene.pod.port) as caller:
        await caller.send(request(BODY, path=f"/model/{IN_PATH}/converse-stream"))
        await caller.head()
        while WORDS.encode() not in await caller.chunk():
            pass
        if who == "app":
            caller.reset()
        else:
            passed.set()
        record = await recorded(scene)
    passed.set()

    assert record["source"] != "reported"
    [(into, out_of)] = await scene.charges()
    assert (into > 0, out_of >= 10) == (True, True)


async def test_errors_of_the_provider(scene: Scene, app: Callable[..., Any]) -> None:
    """Bedrock's own errors pass as they are, and cost nothing."""
    kind = ("x-amzn-errortype", "ModelErrorException:http://internal.amazon.com/")
    json_type = ("content-type", "application/json")
    body = b'{"message": "The model failed."}'
    scene.upstream.play(reply(body, "424 Failed Dependency", (kind, json_type)))
    told = await failed(app().converse, modelId=MODEL, messages=ASKED)

    assert told["Error"] == {
        "Code": "ModelErrorException",
        "Message": "The model failed.",
    }
    await scene.ledger_shows((0, 0))


async def test_counting(scene: Scene, app: Callable[..., Any]) -> None:
    """To have tokens counted costs none, and nothing is written into the body."""
    scene.upstream.play(reply(b'{"inputTokens": 5}'))
    asked = {"converse": {"messages": ASKED}}
    counted = await asyncio.to_thread(app().count_tokens, modelId=MODEL, input=asked)

    assert counted["inputTokens"] == 5
    assert json.loads(received(scene).body) == {"input": asked}
    await scene.ledger_shows((0, 0))
    assert (await recorded(scene))["route"] == "count_tokens"


# === InvokeModel ================================================================


def invoked() -> Iterator[bytes]:
    """Yield Anthropic's events as Bedrock frames them."""
    usage = {"input_tokens": 10, "cache_read_input_tokens": 104, "output_tokens": 1}
    for data in (
        {"type": "message_start", "message": {"model": "claude", "usage": usage}},
        {"type": "content_block_delta", "index": 0, "delta": {"text": WORDS}},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 12},
        },
        {"type": "message_stop", "amazon-bedrock-invocationMetrics": {}},
    ):
        held = base64.b64encode(json.dumps(data).encode()).decode()
        yield frames.event("chunk", {"bytes": held, "p": "abcd"})


async def test_messages_of_anthropic(scene: Scene, app: Callable[..., Any]) -> None:
    """Anthropic's messages are metered by InvokeModel, too, and streamed."""
    scene.upstream.play(*stream(*invoked()))
    answer = await asyncio.to_thread(
        app().invoke_model_with_response_stream,
        modelId="renamed",
        body=json.dumps(ANTHROPIC),
    )
    events = await asyncio.to_thread(list, answer["body"])

    last = json.loads(events[-1]["chunk"]["bytes"])
    assert last["type"] == "message_stop"
    assert json.loads(received(scene).body) == ANTHROPIC
    await scene.ledger_shows(SIDES)
    assert (await recorded(scene))["route"] == "invoke_model"


async def test_a_message_of_anthropic(scene: Scene, app: Callable[..., Any]) -> None:
    """The same without a stream; the cap is where Anthropic has it."""
    body = {
        "content": [{"type": "text", "text": "Once."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 114, "output_tokens": 12},
    }
    scene.upstream.play(reply(json.dumps(body).encode()))
    asked = ANTHROPIC | {"max_tokens": 9_000}
    answer = await asyncio.to_thread(
        app().invoke_model, modelId=MODEL, body=json.dumps(asked)
    )

    assert json.loads(answer["body"].read()) == body
    assert json.loads(received(scene).body)["max_tokens"] == 2_000
    await scene.ledger_shows(SIDES)


async def test_embeddings(scene: Scene, app: Callable[..., Any]) -> None:
    """Of vectors, only what goes in is charged; caps on output do not touch them."""
    scene.upstream.play(reply(b'{"embedding": [0.1], "inputTextTokenCount": 3}'))
    asked = json.dumps({"inputText": "Tell me."})
    await asyncio.to_thread(app().invoke_model, modelId=EMBEDDER, body=asked)
    for model in (MODEL, EMBEDDER):
        streamed = app().invoke_model_with_response_stream
        told = await failed(streamed, modelId=model, body=asked)
        assert told["Error"]["Code"] == "ValidationException"

    assert received(scene).body == asked.encode()
    await scene.ledger_shows((3, 0))


async def test_the_sdk_of_anthropic(scene: Scene) -> None:
    """Anthropic's own SDK for Bedrock sends the key as a bearer's, by plain HTTP too."""
    scene.upstream.play(*stream(*invoked()))
    url = f"http://127.0.0.1:{scene.pod.port}"
    async with AsyncAnthropicBedrock(
        api_key=KEY, base_url=url, aws_region="us-east-1", max_retries=0
    ) as app:
        answer = await app.messages.create(
            model=MODEL,
            max_tokens=500,
            messages=[{"role": "user", "content": "Tell me."}],
            stream=True,
        )
        kinds = [event.type async for event in answer]
        with pytest.raises(anthropic.BadRequestError) as refused:
            await app.messages.create(
                model=MODEL,
                max_tokens=500,
                messages=[{"role": "user", "content": "Tell me."}],
                extra_headers={"X-Amzn-Bedrock-Service-Tier": "priority"},
            )

    assert kinds[-1] == "message_stop"
    # It encodes no colon: what came is what goes on.
    assert received(scene).target == f"/model/{MODEL}/invoke-with-response-stream"
    await scene.ledger_shows(SIDES)
    assert "x-amzn-bedrock-service-tier" in str(refused.value.body)


# === refusals ===================================================================


async def test_over_a_limit(scene: Scene, app: Callable[..., Any]) -> None:
    """Who is over a limit reads when to come back, as AWS would say it."""
    scene.upstream.play(reply(json.dumps(ANSWER).encode()))
    sdk = app(OTHER_KEY)
    await asyncio.to_thread(sdk.converse, modelId=MODEL, messages=ASKED)
    told = await failed(sdk.converse, modelId=MODEL, messages=ASKED)
    streamed = await failed(sdk.converse_stream, modelId=MODEL, messages=ASKED)

    for each in (told, streamed):
        assert each["Error"]["Code"] == "ThrottlingException"
        assert "requests-per-minute" in each["Error"]["Message"]
        about = each["ResponseMetadata"]
        assert about["HTTPStatusCode"] == 429
        assert int(about["HTTPHeaders"]["retry-after"]) >= 1
    assert len(scene.upstream.requests) == 1


async def test_other_refusals(scene: Scene, app: Callable[..., Any]) -> None:
    """Each refusal is an exception that the SDK knows, with our reason in it."""
    calls = [
        ("UnrecognizedClientException", 401, app("nobody").converse, MODEL),
        ("AccessDeniedException", 403, app().converse, "gpt-9"),
        ("ValidationException", 400, app(OTHER_KEY).converse, MODEL),
    ]
    for kind, status, call, model in calls:
        told = await failed(
            call, modelId=model, messages=ASKED, inferenceConfig={"maxTokens": 60_000}
        )
        assert told["Error"]["Code"] == kind
        assert told["ResponseMetadata"]["HTTPStatusCode"] == status
        assert told["ResponseMetadata"]["HTTPHeaders"]["x-tokenweir-refusal"]
    told = await failed(app().invoke_model, modelId=MODEL, body='{"prompt": "Hi"}')
    assert told["Error"]["Code"] == "ValidationException"
    assert "Converse" in told["Error"]["Message"]
    assert scene.upstream.requests == []


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"messages": 5}', b'{"a":1,"a":2}'])
@pytest.mark.parametrize("method", ["converse", "converse-stream", "invoke"])
async def test_bad_bodies(scene: Scene, body: bytes, method: str) -> None:
    """What is no request is refused before it goes anywhere."""
    answer = await scene.call(body, path=f"/model/{IN_PATH}/{method}")

    assert (answer.status, answer.refusal) == (400, "malformed_request")
    assert answer.header("x-amzn-errortype") == "ValidationException"
    assert set(answer.json()) == {"message", "tokenweir"}
    assert scene.upstream.requests == []


@pytest.mark.parametrize(
    "path",
    [
        f"/model/{IN_PATH}/converse/",
        f"/model/{IN_PATH}/Converse",
        f"/model/{IN_PATH}%2Fconverse",
        "/model/a%2F..%2F..%2Fb/converse",
        "/model/a/b/converse",
        f"/model/{IN_PATH}/invoke-with-bidirectional-stream",
        "/async-invoke",
        "/v1%2Fchat/completions",
    ],
)
async def test_other_paths(scene: Scene, path: str) -> None:
    """What is no path that is metered goes nowhere."""
    answer = await scene.call(BODY, path=path)

    assert (answer.status, answer.refusal) == (403, "path_not_metered")
    assert scene.upstream.requests == []


async def test_who_signs(scene: Scene, sdk: Callable[..., Any]) -> None:
    """Who signs by a key of AWS' is told what to do, and is in no log."""
    signing = sdk("AKIDCANARY", "sk-CANARY")
    told = await failed(signing.converse, modelId=MODEL, messages=ASKED)

    assert told["Error"]["Code"] == "UnrecognizedClientException"
    assert "AWS_BEARER_TOKEN_BEDROCK" in told["Error"]["Message"]
    assert told["ResponseMetadata"]["HTTPStatusCode"] == 401
    assert scene.upstream.requests == []
    logs = [each.log.read_text() for each in scene.pod.processors]
    assert "CANARY" not in "".join([*logs, scene.pod.envoy.log()])
    assert "AWS4" not in "".join([*logs, scene.pod.envoy.log()])
