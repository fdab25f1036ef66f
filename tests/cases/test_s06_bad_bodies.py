"""S06: a body that is no request of its API is a bad request, and nothing worse."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.apis import ANTHROPIC, OPENAI, TOLD, Api, both_apis
from tests.cases.connection import Answer, Connection, request
from tests.cases.refusals import expect
from tests.cases.scene import Scene
from tests.scripted_upstream import ReceivedRequest, Step, reply
from tokenweir.ledger import scripts
from tokenweir.ledger.scripts import Script

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CHARGED = (TOLD.input, TOLD.output)
# A label of a metric, and its value.
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
# What the ledger is asked: by a script each, or by commands of its server.
VERBS = {
    "ping",
    "read",
    *(each.name for each in vars(scripts).values() if isinstance(each, Script)),
}


def everything_passes(content: dict[str, Any]) -> None:
    """Let unknown paths pass, where the way around the limits would be."""
    for provider in content["providers"].values():
        provider["unknown_paths"] = "opaque"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened() -> AsyncIterator[Scene]:
    """Give the module a pod."""
    async with Scene.open(adapt=everything_passes) as scene:
        yield scene


@pytest_asyncio.fixture(loop_scope="module")
async def scene(opened: Scene) -> AsyncIterator[Scene]:
    """Give a test the pod with an empty ledger; the same process must outlive it."""
    await opened.clear()
    opened.upstream.choose(answer_to)
    pid = opened.pod.processors[0].process.pid

    yield opened
    [processor] = opened.pod.processors
    assert processor.process.poll() is None
    assert processor.process.pid == pid
    assert processor.count("fault") == 0
    assert opened.pod.envoy.stats("tokenweir.admission").get("failed", 0) == 0


def answer_to(asked: ReceivedRequest) -> list[Step]:
    """Return what the provider says."""
    api: Api = OPENAI if "chat" in asked.target else ANTHROPIC
    return [reply(api.reply("Hi.", TOLD))]


def with_model(api: Api, model: object) -> bytes:
    """Return the usual request for *model*."""
    return api.request(stream=False, model=model)


def without_model(api: Api) -> bytes:
    """Return the usual request for no model at all."""
    body = json.loads(api.request(stream=False))
    del body["model"]
    return json.dumps(body).encode()


def put_first(api: Api, members: bytes) -> bytes:
    """Return the usual request with *members* put before its own."""
    return b"{" + members + b"," + api.request(stream=False)[1:]


def put_last(api: Api, members: bytes) -> bytes:
    """Return the usual request with *members* put behind its own."""
    return api.request(stream=False)[:-1] + b"," + members + b"}"


MODELS: dict[str, object] = {
    "null": None,
    "a number": 5,
    "a fraction": 5.5,
    "a truth": True,
    "a list": ["gpt-4o"],
    "an object": {"gpt-4o": 1},
    "empty": "",
    "a blank": " ",
    "a blank before it": " gpt-4o",
    "a blank behind it": "gpt-4o ",
    "a zero": "gpt-4o\u0000",
    "a line end": "gpt-4o\nset-cookie: a=b",
    "a header": "gpt-4o\r\nx-tokenweir-cluster: anthropic",
    "turned around": "\u202egpt-4o",
    "of no width": "gpt-4o\u200b",
    "100 KB": "a" * 100_000,
    "long and wide": "é" * 257,
}
Made = Callable[[Api], bytes]
BODIES: dict[str, Made] = {
    "no model": without_model,
    "an array": lambda _: b"[]",
    "an array of a request": lambda api: b"[" + api.request(stream=False) + b"]",
    "a string": lambda _: b'"gpt-4o"',
    "a number": lambda _: b"5",
    "null": lambda _: b"null",
    "a truth": lambda _: b"true",
    "nothing but an object": lambda _: b"{}",
    "blanks": lambda _: b" \r\n\t ",
    "bytes": lambda _: bytes(range(256)),
    "zeros": lambda _: bytes(1_000),
    "half": lambda api: api.request(stream=False)[:-20],
    "two": lambda api: api.request(stream=False) * 2,
    "more behind it": lambda api: api.request(stream=False) + b"x",
    "a comment": lambda api: b"/* hi */" + api.request(stream=False),
    "single quotes": lambda api: api.request(stream=False).replace(b'"', b"'"),
    "a byte-order mark": lambda api: b"\xef\xbb\xbf" + api.request(stream=False),
    "UTF-16": lambda api: api.request(stream=False).decode().encode("utf-16"),
    "UTF-16 without a mark": lambda api: api.request().decode().encode("utf-16-le"),
    "UTF-32": lambda api: api.request(stream=False).decode().encode("utf-32"),
    "UTF-7": lambda api: api.request(stream=False).replace(b'"', b"+ACI-"),
    "broken UTF-8": lambda api: put_first(api, b'"x":"\xff\xfe"'),
    "overlong UTF-8": lambda api: put_first(api, b'"x":"\xc0\xaf"'),
    "a surrogate in UTF-8": lambda api: put_first(api, b'"x":"\xed\xa0\x80"'),
    "half a pair": lambda api: put_first(api, rb'"x":"\ud800"'),
    "half a pair as a name": lambda api: put_first(api, rb'"\udfff":1'),
    "half a pair as the model": lambda api: with_model(api, "@").replace(
        b'"@"', rb'"\ud800"'
    ),
    "a control character": lambda api: put_first(api, b'"x":"\x01"'),
    "NaN": lambda api: put_first(api, b'"x":NaN'),
    "-Infinity": lambda api: put_first(api, b'"temperature":-Infinity'),
    "a number above all floats": lambda api: put_first(api, b'"x":1e400'),
    "a number of 5,000 digits": lambda api: put_first(api, b'"x":' + b"9" * 5_000),
    "a zero before a number": lambda api: put_first(api, b'"x":007'),
    "two models": lambda api: put_first(api, b'"model":"gpt-4o-mini"'),
    "two models, one escaped": lambda api: put_first(api, rb'"mode\u006c":"gpt-4o"'),
    "a Model beside the model": lambda api: put_last(api, b'"Model":"gpt-4o"'),
    "a MODEL, escaped": lambda api: put_last(api, rb'"\u004dODEL":"gpt-4o"'),
    "Max_Tokens": lambda api: put_last(api, b'"Max_Tokens":100000'),
    "max_to\u212aens": lambda api: put_last(api, '"max_to\u212aens":9'.encode()),
    "STREAM": lambda api: put_last(api, b'"STREAM":true'),
    "Messages": lambda api: put_last(api, b'"Messages":[]'),
    "a Role in a message": lambda api: api.request(
        stream=False, messages=[{"role": "user", "content": "x", "Role": "system"}]
    ),
    "a Text in a part": lambda api: api.request(
        stream=False,
        messages=[{"role": "user", "content": [{"type": "text", "Text": "x"}]}],
    ),
    "a name twice, deep inside": lambda api: put_first(api, b'"x":[{"a":1,"a":1}]'),
    "a form": lambda _: b"model=gpt-4o&messages=hi",
    "XML": lambda _: b'<?xml version="1.0"?><model>gpt-4o</model>',
    "YAML": lambda _: b"model: gpt-4o\nmessages: []\n",
    "compressed": lambda _: b"\x1f\x8b\x08\x00" + bytes(100),
    "too many values": lambda api: put_first(api, b'"x":[' + b"[]," * 600_000 + b"1]"),
    "too many strings": lambda api: put_first(api, b'"x":[' + b'"",' * 600_000 + b"1]"),
}


async def is_malformed(scene: Scene, api: Api, body: bytes) -> dict[str, Any]:
    """Demand that *body* is refused as malformed, and costs nothing."""
    answer = await scene.call(body, path=api.path)

    error = expect(answer, api, 400, "malformed_request")
    await scene.pod.settled()
    assert not scene.upstream.requests
    assert not await scene.pod.ledger.records()
    return error


@both_apis
@pytest.mark.parametrize("name", MODELS)
async def test_s06_no_model(scene: Scene, api: Api, name: str) -> None:
    """
    What is no model's name is a bad request that points at `model`.

    router-for-me/CLIProxyAPI#3297, UKGovernmentBEIS/inspect_ai#4187
    """
    error = await is_malformed(scene, api, with_model(api, MODELS[name]))

    assert "`model`" in error["message"]
    assert error.get("param", "model") == "model"


@both_apis
@pytest.mark.parametrize("name", BODIES)
async def test_s06_no_request(scene: Scene, api: Api, name: str) -> None:
    """
    What two parsers could read differently, or none at all, is a bad request.

    n8n-io/n8n#35933, UKGovernmentBEIS/inspect_ai#4187
    """
    await is_malformed(scene, api, BODIES[name](api))


# Every member that is read, in both APIs, with the types that it may have.
MEMBERS = (
    "model", "messages", "max_tokens", "max_completion_tokens", "n", "stream",
    "stream_options", "tools", "tool_choice", "functions", "function_call", "user",
    "safety_identifier", "metadata", "system", "response_format", "thinking", "stop",
    "temperature", "logit_bias", "service_tier", "modalities", "audio", "prediction",
    "container", "context_management", "mcp_servers", "output_config", "reasoning_effort",
)  # fmt: skip
WRONG: tuple[object, ...] = (
    None, True, False, 0, -1, 1, 1.5, 10**12, 10**30, 1e300, "", "x", "12", [], {}, [5],
    [None], [[]], [{}], ["x"], {"a": 1}, {"type": 5}, {"type": {}}, {"type": "function"},
    [{"type": 5}], [{"type": {}}], [{"type": "function"}], [{"type": "function", "function": 5}],
    [{"name": 5}], [{"name": "f", "input_schema": 5}], {"user_id": 5}, {"include_usage": 5},
    {"json_schema": 5}, {"schema": []}, {"name": []}, {"function": 5}, "auto", "\u2028",
)  # fmt: skip
MESSAGES: tuple[object, ...] = (
    {}, {"role": 5}, {"role": "user"}, {"role": ["user"], "content": "x"}, {"content": "x"},
    {"role": "user", "content": 5}, {"role": "user", "content": {}}, {"role": "x" * 1000, "content": "x"},
    {"role": "user", "content": "x", "name": 5}, {"role": "user", "content": "x", "name": {}},
    {"role": "assistant", "content": None}, {"role": "assistant", "tool_calls": 5},
    {"role": "assistant", "tool_calls": [5]}, {"role": "assistant", "tool_calls": [{"function": 5}]},
    {"role": "assistant", "tool_calls": [{"function": {"name": 5, "arguments": {}}}]},
    {"role": "assistant", "function_call": 5}, {"role": "tool", "tool_call_id": 5, "content": [[]]},
)  # fmt: skip
PARTS: tuple[object, ...] = (
    5, None, [], "x", {}, {"type": 5}, {"type": {}}, {"type": "text"}, {"type": "text", "text": 5},
    {"type": "image_url"}, {"type": "image_url", "image_url": 5}, {"type": "image_url", "image_url": {}},
    {"type": "image_url", "image_url": {"url": 5}}, {"type": "image_url", "image_url": {"url": "data:"}},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,@@@@"}},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": 5}},
    {"type": "image", "source": 5}, {"type": "image", "source": {"type": "base64", "data": 5}},
    {"type": "image", "source": {"type": "base64", "data": "@", "media_type": 5}},
    {"type": "input_audio", "input_audio": 5}, {"type": "input_audio", "input_audio": {"data": "%%"}},
    {"type": "file", "file": 5}, {"type": "document", "source": 5}, {"type": "tool_result", "content": 5},
    {"type": "tool_use", "input": 5}, {"type": "thinking", "thinking": 5}, {"type": "x" * 10_000},
)  # fmt: skip


def sweep(api: Api) -> Iterator[bytes]:
    """Yield requests of which one thing is wrong, or at least unusual."""
    usual = json.loads(api.request(stream=False))
    for name in MEMBERS:
        for value in WRONG:
            if name != "stream" or value is not True:  # is right: changes the body
                yield json.dumps(usual | {name: value}).encode()
    for message in MESSAGES:
        yield api.request(stream=False, messages=[message])
    for part in PARTS:
        yield api.request(
            stream=False, messages=[{"role": "user", "content": [part, part]}]
        )


@both_apis
async def test_s06_members_of_any_type(scene: Scene, api: Api) -> None:
    """
    Whatever type a member has, the request is refused in the API's shape and not sent,
    or sent as it was written and charged once.

    router-for-me/CLIProxyAPI#3297: an object as the model was unhashable, and a crash.
    """
    sent = []
    for body in sweep(api):
        answer = await scene.call(body, path=api.path)
        if answer.status == 200:
            sent.append(body)
        else:
            refusal = answer.refusal
            assert refusal in ("malformed_request", "model_not_allowed"), body
            expect(answer, api, 403 if refusal == "model_not_allowed" else 400, refusal)

    assert [received.body for received in scene.upstream.requests] == sent
    assert len(sent) > 100
    await scene.ledger_shows(*[CHARGED] * len(sent))


async def sent(
    scene: Scene, path: str, body: bytes, *headers: tuple[str, str]
) -> Answer:
    """Return the answer to *body*, sent to *path* as it is."""
    async with Connection.open(scene.pod.port) as app:
        await app.send(request(body, path=path, headers=headers))
        return await app.answer()


async def test_s06_an_upload(scene: Scene) -> None:
    """
    A multipart upload is no chat: it is a bad request, on whatever path it came.

    UKGovernmentBEIS/inspect_ai#4187
    """
    body = (
        b"--b\r\ncontent-disposition: form-data; name=model\r\n\r\nwhisper-1\r\n"
        b'--b\r\ncontent-disposition: form-data; name=file; filename="a.wav"\r\n\r\n'
        + bytes(range(256)) * 400
        + b"\r\n--b--\r\n"
    )
    kind = ("content-type", "multipart/form-data; boundary=b")
    for api in (OPENAI, ANTHROPIC):
        answer = await sent(scene, api.path, body, kind)
        expect(answer, api, 400, "malformed_request")

    assert not scene.upstream.requests
    await scene.ledger_shows()


@pytest.mark.parametrize(
    ("before", "boundary", "coding"),
    [
        (b'X-A: name="x"\r\n', "b", "identity"),
        (b"", "c", "identity"),
        (b"", "b", "br"),
    ],
)
async def test_s06_a_form_of_two_readings(
    scene: Scene, before: bytes, boundary: str, coding: str
) -> None:
    """
    A form is read by one boundary, one header of a part and no coding, or is refused.
    """
    path = "/v1/audio/transcriptions"
    body = (
        b"--b\r\n" + before + b'content-disposition: form-data; name="model"\r\n\r\n'
        b"whisper-1\r\n--b--\r\n"
    )
    kind = ("content-type", f"multipart/form-data; boundary={boundary}")
    answer = await sent(scene, path, body, kind, ("content-encoding", coding))

    expect(answer, OPENAI, 400, "malformed_request")
    assert not scene.upstream.requests
    await scene.ledger_shows()


@both_apis
@pytest.mark.parametrize("coding", ["compress", "snappy", "gzip, x", "aws-chunked"])
async def test_s06_an_unknown_encoding(scene: Scene, api: Api, coding: str) -> None:
    """
    A body that can't be read is refused, and told what would be taken.

    n8n-io/n8n#35933
    """
    body = api.request(stream=False)
    answer = await sent(scene, api.path, body, ("content-encoding", coding))

    expect(answer, api, 415, "encoding_not_metered")
    assert answer.header("accept-encoding") == "gzip, deflate, br, zstd"
    await scene.ledger_shows()


@both_apis
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "identity, GZIP"])
async def test_s06_an_encoding_that_is_none(
    scene: Scene, api: Api, coding: str
) -> None:
    """
    A body that says it is encoded and is plain JSON would be read by some servers as it
    is, so it is refused. n8n-io/n8n#35933
    """
    body = api.request(stream=False)
    answer = await sent(scene, api.path, body, ("content-encoding", coding))

    expect(answer, api, 400, "malformed_request")
    assert "not encoded" in answer.json()["error"]["message"]
    await scene.ledger_shows()


PATHS = (
    "/v1/chat/completions/",
    "/v1/chat/completions/.",
    "/v1/chat/completions//",
    "/v1/chat/completions.",
    "/v1/chat/completions%20",
    "/v1/chat/completions%0a",
    "/v1/chat/completions%3f",
    "/v1/chat/completions;x=y",
    "/v1/Chat/Completions",
    "/V1/%43hat/completions",
    "/v1/chat%2fcompletions",
    "/v1/chat/completions%00",
    "/v1/chat/completions%2f",
    "/v1/messages/",
    "/v1/Messages",
    "/v1/messages%20?beta=true",
)


@pytest.mark.parametrize("path", PATHS)
async def test_s06_almost_a_metered_path(scene: Scene, path: str) -> None:
    """
    A path that a forgiving server takes for a metered one is no way around the
    limits, even where unknown paths may pass.

    kubeai-project/kubeai#105
    """
    answer = await sent(scene, path, OPENAI.request(stream=False))

    assert answer.refusal in ("path_not_metered", "malformed_request")
    assert answer.status in (400, 403)
    assert not scene.upstream.requests
    await scene.ledger_shows()


NORMAL = (
    "//v1//chat/completions",
    "/v1/./chat/completions",
    "/v1/x/../chat/completions",
    "/v1/chat/%63ompletions",
    "/v1\\chat\\completions",
    "/v1/%2e%2e/v1/chat/completions?x=y",
)


@pytest.mark.parametrize("path", NORMAL)
async def test_s06_another_spelling_of_a_metered_path(scene: Scene, path: str) -> None:
    """
    A path that means a metered one is metered. kubeai-project/kubeai#105
    """
    answer = await sent(scene, path, OPENAI.request(stream=False))

    assert answer.status == 200
    await scene.ledger_shows(CHARGED)
    [received] = scene.upstream.requests
    assert received.target.partition("?")[0] == "/v1/chat/completions"


def labels(scene: Scene) -> set[tuple[str, str]]:
    """
    Return every label of every metric, with its value.

    But for calls of the ledger: some are made in the background now and then.
    """
    text = scene.pod.processors[0].admin("/metrics")
    told = {pair for line in text.splitlines() for pair in LABEL.findall(line)}
    return told - {("verb", verb) for verb in VERBS}


async def test_s06_clients_make_no_labels(scene: Scene) -> None:
    """
    However many models, paths, methods and users clients make up, no metric gets a
    label for them.

    router-for-me/CLIProxyAPI#3297
    """
    for api in (OPENAI, ANTHROPIC):
        await scene.call(api.request(stream=False), path=api.path)
        await scene.call(with_model(api, "made-up"), path=api.path)
        await scene.call(with_model(api, 5), path=api.path)
    await scene.call(path="/v1/other", method="GET")
    await sent(scene, "/v1/other", b"{}")
    await scene.pod.settled()
    before = labels(scene)

    for number in range(100):
        for api in (OPENAI, ANTHROPIC):
            await scene.call(with_model(api, f"made-up-{number}"), path=api.path)
            user = api.request(stream=False, user=f"u{number}")
            await scene.call(user, path=api.path)
        await scene.call(path=f"/v1/made-up-{number}", method="GET")
        await scene.call(path=f"/v1/{number}", method=f"M{number}")
        await sent(scene, f"/v1/made-up-{number}", b"{}")
    await scene.pod.settled()

    assert labels(scene) == before
    assert max(len(value) for _, value in before) < 64
