"""B12, B13: budgets hold when calls run at once, and what follows once one is spent."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
import pytest_asyncio

from tests.cases.apis import OPENAI, Told, story
from tests.cases.connection import Answer, Connection, request
from tests.cases.priced import overlay
from tests.cases.scene import Scene, key_of, tenants
from tests.pod import until
from tests.scripted_upstream import End, Hold, Step, event_stream, reply
from tokenweir.cli.main import main

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

# A call of at most 1,000 tokens of output costs a little more than 0.02 USD.
OUTPUT = 1_000
LARGE_NANOUSD, SMALL_NANOUSD = 20_000, 2_000
CHEAPER = {
    "budget_usd": 0.05,
    "per": "day",
    "on_exceeded": {"downgrade_to": "gpt-4o-mini", "hard_limit_usd": 0.055},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Give the module a pod whose tenants have budgets of each kind."""
    prices = overlay(tmp_path_factory.mktemp("prices"))

    def adapt(content: dict[str, Any]) -> None:
        tenants(
            block=[{"budget_usd": 0.05, "per": "month", "time_zone": "Asia/Tokyo"}],
            cheaper=[CHEAPER],
            tokens=[{"budget_tokens": 2_500, "per": "hour"}],
            both=[CHEAPER, {"tokens_per_minute": 1, "capacity": 2_500}],
            slower=[
                {"tokens_per_minute": 600_000, "capacity": 3_000},
                {
                    "budget_tokens": 1_500,
                    "per": "day",
                    "on_exceeded": {
                        "throttle_percent": 1,
                        "hard_limit_tokens": 9_000_000,
                    },
                },
            ],
        )(content)
        content["prices"] = {"overlays": [prices]}

    async with Scene.open(adapt=adapt, options={"workers": 2}) as opened:
        yield opened


def body(**members: Any) -> bytes:
    """Return a request whose answer may have a thousand tokens."""
    return OPENAI.request(stream=False, max_tokens=OUTPUT, **members)


async def spending(scene: Scene, tenant: str) -> tuple[int, int]:
    """Return what is spent and reserved of the tenant's only budget."""
    [found] = (await scene.pod.ledger.snapshot(tenant)).spendings.values()
    return found.spent, found.reserved


async def test_b12_parallel_calls_never_pass_a_budget(scene: Scene) -> None:
    """
    Of 0.05 USD, two worst cases of 0.02 fit: of twenty calls at once, two get through.

    BerriAI/litellm#34732: checked before, booked after.
    """
    await scene.clear()
    gate = asyncio.Event()
    scene.upstream.play(Hold(gate), reply(OPENAI.reply("Hi.", Told(11, 7))))
    calls = [
        asyncio.create_task(scene.call(body(), key=key_of("block"))) for _ in range(20)
    ]
    await until(lambda: sum(call.done() for call in calls) == 18)
    spent, reserved = await spending(scene, "block")
    gate.set()
    answers = await asyncio.gather(*calls)

    assert spent == 0
    assert 2 * OUTPUT * LARGE_NANOUSD < reserved <= 50_000_000
    assert sorted(answer.status for answer in answers) == [200] * 2 + [429] * 18
    await scene.pod.settled()
    exact = 2 * (11 * 4_000 + 7 * LARGE_NANOUSD)
    assert await spending(scene, "block") == (exact, 0)


async def test_b12_a_spent_budget_says_when_it_turns(scene: Scene) -> None:
    """
    429 `insufficient_quota`: no SDK retries it, and people read when the month is over.
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(11, 2_400))))
    await scene.call(body(), key=key_of("block"))
    await scene.pod.settled()
    answer = await scene.call(body(), key=key_of("block"))

    assert (answer.status, answer.refusal) == (429, "budget_exhausted")
    assert answer.header("x-should-retry") == "false"
    detail = answer.detail
    assert (detail["limit"], detail["unit"], detail["window"]) == (
        "budget_usd",
        "nanousd",
        "month",
    )
    assert detail["capacity"] == 50_000_000
    assert detail["used"] == 11 * 4_000 + 2_400 * LARGE_NANOUSD
    assert detail["resets_at"].endswith("T15:00:00Z")  # midnight in Tokyo
    retry_after = answer.header("retry-after")
    assert retry_after is not None
    assert int(retry_after) * 1_000 >= detail["retry_after_ms"] > 0
    message = answer.json()["error"]["message"]
    assert "monthly budget" in message
    assert "$0.05" in message

    base = f"http://127.0.0.1:{scene.pod.port}/v1"
    client = openai.AsyncOpenAI(api_key=key_of("block"), base_url=base)
    before = len(scene.upstream.requests)
    with pytest.raises(openai.RateLimitError) as caught:
        await client.chat.completions.create(
            model="gpt-4o",
            messages=[{"role": "user", "content": "Hi."}],
            max_tokens=OUTPUT,
        )
    await client.close()
    assert caught.value.code == "insufficient_quota"
    assert len(scene.upstream.requests) == before


async def test_a_spent_budget_is_answered_by_a_cheaper_model(scene: Scene) -> None:
    """
    The body's model is another and nothing else; the app is told; it is recorded so.
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(11, 2_400))))
    before = await scene.call(body(), key=key_of("cheaper"))
    await scene.pod.settled()
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(12, 500), model="gpt-4o-mini")))
    sent = b'{ "max_tokens":1000,"temperature":1.0, "model" : "gpt-4o" ,"messages":[]}'
    after = await scene.call(sent, key=key_of("cheaper"))
    await scene.pod.settled()

    assert (before.status, after.status) == (200, 200)
    assert before.header("x-tokenweir-downgraded-from") is None
    assert after.header("x-tokenweir-downgraded-from") == "gpt-4o"
    assert scene.upstream.requests[-1].body == sent.replace(b"gpt-4o", b"gpt-4o-mini")
    record = (await scene.pod.ledger.records("cheaper"))[-1]
    assert (record["model"], record["downgraded_from"]) == ("gpt-4o-mini", "gpt-4o")
    assert record["cost_nanousd"] == str(12 * 1_000 + 500 * SMALL_NANOUSD)
    spent, reserved = await spending(scene, "cheaper")
    assert spent == 11 * 4_000 + 2_400 * LARGE_NANOUSD + 12_000 + 1_000_000
    assert reserved == 0


async def test_a_hard_limit_ends_it(scene: Scene) -> None:
    """
    Above it nothing passes, however cheap; it is the budget that says so.
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(11, 2_700))))
    await scene.call(body(), key=key_of("cheaper"))
    await scene.pod.settled()
    answer = await scene.call(body(), key=key_of("cheaper"))

    assert (answer.status, answer.refusal) == (429, "budget_exhausted")
    assert answer.detail["capacity"] == 55_000_000


async def test_another_limit_refuses_whatever_budgets_do(scene: Scene) -> None:
    """
    Only when every failing quota downgrades does a cheaper model answer.
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(11, 2_400))))
    await scene.call(body(), key=key_of("both"))
    await scene.pod.settled()
    answer = await scene.call(body(), key=key_of("both"))

    assert answer.status == 429
    limits = {failure["limit"] for failure in answer.detail["failures"]}
    assert limits == {"budget_usd", "tokens_per_minute"}
    assert len(scene.upstream.requests) == 1


async def test_a_budget_of_tokens(scene: Scene) -> None:
    """It counts all tokens, whatever they cost, and needs no price."""
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(11, 1_900))))
    await scene.call(body(), key=key_of("tokens"))
    await scene.pod.settled()
    answer = await scene.call(body(), key=key_of("tokens"))

    assert (answer.status, answer.refusal) == (429, "budget_exhausted")
    assert (answer.detail["unit"], answer.detail["used"]) == ("tokens", 1_911)


async def test_a_throttling_budget_slows_down(scene: Scene) -> None:
    """
    Once it is spent calls still pass, at a hundredth of the pace.
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(11, 900))))
    answers: list[Answer] = []
    while not answers or answers[-1].status == 200:
        answers.append(await scene.call(body(), key=key_of("slower")))
        await scene.pod.settled()
        await asyncio.sleep(0.3)  # in which the rate itself comes back

    # One within the budget; then as many as the slower rate has room for at once.
    assert len(answers) >= 1 + 3 + 1
    failing = {failure["quota"]: failure for failure in answers[-1].detail["failures"]}
    slowed = failing["slower.budget_tokens_per_day.slower.tokens_per_minute"]
    assert (slowed["rate_per_minute"], slowed["capacity"]) == (6_000, 3_000)


async def test_b13_settles_that_are_repeated_count_once(scene: Scene) -> None:
    """
    A hundred calls, each settled by its own figure: not a nano-USD of drift.

    BerriAI/litellm#30460
    """
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(11, 7))))
    answers: list[Answer] = []
    for _ in range(10):
        answers += await asyncio.gather(
            *(
                scene.call(
                    OPENAI.request(stream=False, max_tokens=8), key=key_of("block")
                )
                for _ in range(10)
            )
        )
    await scene.pod.settled()

    assert {answer.status for answer in answers} == {200}
    exact = 100 * (11 * 4_000 + 7 * LARGE_NANOUSD)
    assert await spending(scene, "block") == (exact, 0)
    records = await scene.pod.ledger.records("block")
    assert sum(int(record["cost_nanousd"]) for record in records) == exact
    assert json.loads(answers[0].body)["usage"]["completion_tokens"] == 7


# === faults =======================================================================


def endless() -> list[Step]:
    """Return the beginning of a stream that does not go on."""
    return [*event_stream(story(OPENAI)[:4])[:-1], End.STALL]


async def test_a_cut_stream_costs_what_passed(scene: Scene) -> None:
    """The input and the text that was generated, by their prices; nothing stays held."""
    await scene.clear()
    scene.upstream.play(*endless())
    data = request(OPENAI.request(max_tokens=OUTPUT), key=key_of("block"))
    async with Connection.open(scene.pod.port) as app:
        await app.send(data)
        await app.head()
        got = b""
        while story(OPENAI)[3] not in got:  # Envoy may join what came together
            got += await app.chunk()
    await scene.pod.settled()
    await until(lambda: scene.charges("block"))
    [record] = await scene.pod.ledger.records("block")

    assert (record["outcome"], record["source"]) == ("cut", "counted")
    tokens = int(record["input_tokens"]), int(record["output_tokens"])
    assert min(tokens) > 0
    exact = tokens[0] * 4_000 + tokens[1] * LARGE_NANOUSD
    assert record["cost_nanousd"] == str(exact)
    assert await spending(scene, "block") == (exact, 0)


async def test_a_silent_ledger_spends_nothing(scene: Scene) -> None:
    """Who can't be booked is refused, and holds nothing once the ledger is back."""
    await scene.clear()
    scene.upstream.play(reply(OPENAI.reply("Hi.", Told(11, 7))))
    scene.pod.server.pause()
    try:
        refused = await scene.call(body(), key=key_of("block"))
    finally:
        scene.pod.server.resume()
    await scene.pod.settled()
    served = await scene.call(body(), key=key_of("block"))
    await scene.pod.settled()

    assert (refused.status, refused.refusal) == (503, "ledger_unavailable")
    assert served.status == 200
    assert len(scene.upstream.requests) == 1
    exact = 11 * 4_000 + 7 * LARGE_NANOUSD
    assert await spending(scene, "block") == (exact, 0)


async def said(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Run a command with `--json`; return its exit code, and what it printed."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = await asyncio.to_thread(main, [*arguments, "--json"])
    return code, json.loads(out.getvalue() or "{}"), errors.getvalue()


async def left(scene: Scene, file: Path) -> int:
    """Return what is left of the tenant's budget, as `tokenweir explain` has it."""
    asked = ["--policy", str(scene.pod.policy_path), "--ledger", scene.pod.server.url]
    code, told, _ = await said("explain", *asked, "--key-id", "block", str(file))
    assert (code, told["decision"]["admitted"]) == (0, True)
    [limit] = told["reservations"][0]["limits"]
    return int(limit["before"]["remaining"])


async def used(scene: Scene) -> dict[str, Any]:
    """Return the sums of `tokenweir usage`."""
    code, told, _ = await said("usage", "--ledger", scene.pod.server.url)
    assert code == 0
    return dict(told["total"])


async def knows_nothing(scene: Scene, file: Path) -> None:
    """Demand that nothing is told without a ledger, but that there is none."""
    ledger = ["--ledger", scene.pod.server.url]
    explain = ["explain", "--policy", str(scene.pod.policy_path), *ledger]
    for command in (["usage", *ledger], [*explain, "--key-id", "block", str(file)]):
        code, told, error = await said(*command)
        assert (code, told) == (1, {})
        assert "no answer" in error


@pytest_asyncio.fixture(loop_scope="module")
async def capped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scene]:
    """Give a test a pod with a budget and a cap, whose holds expire soon."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "sk-x")  # `explain` wants them, as a pod does
    prices = overlay(tmp_path)

    def adapt(content: dict[str, Any]) -> None:
        tenants(block=[{"budget_usd": 0.05, "per": "month"}])(content)
        content["caps"] = [{"output_tokens": OUTPUT // 2}]
        content["prices"] = {"overlays": [prices]}

    options = {"program": "tests.cases.short_holds"}
    async with Scene.open(adapt=adapt, options=options) as opened:
        yield opened


async def test_a_killed_processor_keeps_no_money(capped: Scene, tmp_path: Path) -> None:
    """
    Its hold is charged by the reaper: its input, and no more than was reserved. Until
    then reports and explanations say that it is reserved, then what it cost, and without
    a ledger that they don't know.
    """
    file, sent = tmp_path / "request.json", OPENAI.request(max_tokens=OUTPUT)
    file.write_bytes(sent)
    capped.upstream.play(*endless())
    async with Connection.open(capped.pod.port) as app:
        await app.send(request(sent, key=key_of("block")))
        head = await app.head()
        _, reserved = await spending(capped, "block")
        [processor] = capped.pod.processors
        processor.kill()
        assert await left(capped, file) == 50_000_000 - reserved
        assert (await used(capped))["exchanges"] == 0
        await asyncio.to_thread(processor.restart)
        await capped.pod.settled(60.0)
    [record] = await capped.pod.ledger.records("block")
    cost = int(record["cost_nanousd"])
    total = await used(capped)

    assert record["outcome"] == "lost"
    assert head.header("x-tokenweir-output-cap") == f"{OUTPUT // 2};from={OUTPUT}"
    assert int(record["input_tokens"]) * 4_000 <= cost <= reserved
    assert reserved < OUTPUT * LARGE_NANOUSD
    assert await spending(capped, "block") == (cost, 0)
    assert await left(capped, file) == 50_000_000 - cost
    figures = {"outcome_lost": 1, "cost_nanousd": cost, "capped": 1}
    figures |= {"exchanges": 1, "cap_reached": 0, "cap_saved_nanousd": 0}
    assert {name: total[name] for name in figures} == figures
    await asyncio.to_thread(capped.pod.server.stop)
    await knows_nothing(capped, file)
