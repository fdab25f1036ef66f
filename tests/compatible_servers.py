"""
What servers of the OpenAI API send besides OpenAI, as far as usage and text go.

Each is played in its own shape: what it streams, what it answers at once, and what
both must come to. Shapes are from the servers' documents and from reports by those who
fell over them; texts and figures are ours.
"""

from __future__ import annotations

from typing import Any

from tests.compatible_chunks import (
    DONE,
    STOP,
    STORY,
    THOUGHTS,
    WORDS,
    Members,
    Server,
    chunk,
    says,
    sums,
    whole,
)
from tokenweir.core.usage import TokenUsage


def _vllm() -> Server:
    """Running totals with each chunk; reasoning under either name; token ids."""
    ids = {"token_ids": [9, 10], "logprobs": None, "stop_reason": None}
    begun = says({"role": "assistant", "content": ""}, **ids)
    thinks = [says({"reasoning": t, "reasoning_content": t}, **ids) for t in THOUGHTS]
    speaks = [says({"content": word}, **ids) for word in WORDS]
    running = [
        chunk(choice, usage=sums(18, generated))
        for generated, choice in enumerate((*thinks, *speaks), start=1)
    ]
    first = chunk(begun, prompt_token_ids=[1, 2], usage=sums(18, 0))
    usage = sums(18, 5, prompt_tokens_details={"cached_tokens": 16})
    message = {"content": STORY, "reasoning": "".join(THOUGHTS), "tool_calls": []}
    return Server(
        "vLLM",
        (first, *running, chunk(STOP, usage=sums(18, 5)), chunk(usage=usage), DONE),
        whole(message, usage, prompt_logprobs=[None, {"5": {"logprob": -1}}]),
        TokenUsage(input_tokens=2, cached_input_tokens=16, output_tokens=5),
        (*THOUGHTS, *WORDS),
    )


def _sglang() -> Server:
    """Reasoning tokens beside the sums; a null for what is not there."""
    nulls = {"tool_calls": None, "logprobs": None, "matched_stop": None}
    deltas = [
        *({"content": None, "reasoning_content": text} for text in THOUGHTS),
        *({"content": word, "reasoning_content": None} for word in WORDS),
    ]
    chunks = [chunk(says(delta, **nulls), usage=None) for delta in deltas]
    usage = sums(18, 9, prompt_tokens_details=None, reasoning_tokens=4)
    message = {"content": STORY, "reasoning_content": "".join(THOUGHTS)}
    return Server(
        "SGLang",
        (*chunks, chunk({**STOP, "matched_stop": 151_645}), chunk(usage=usage), DONE),
        whole(message, usage, metadata={"weight_version": "default"}),
        TokenUsage(input_tokens=18, output_tokens=5, reasoning_tokens=4),
        (*THOUGHTS, *WORDS),
    )


def _llama_cpp() -> Server:
    """Its timings, and an end without a last event."""
    timings = {"cache_n": 7, "prompt_n": 11, "predicted_n": 3, "predicted_ms": 15.5}
    speaks = [chunk(says({"content": word}), timings=timings) for word in WORDS]
    usage = sums(18, 3, prompt_tokens_details={"cached_tokens": 7})
    begun = chunk(says({"role": "assistant", "content": None}))
    last = chunk(usage=usage, timings=timings)
    return Server(
        "llama.cpp",
        (begun, *speaks, chunk(STOP, timings=timings), last),
        whole({"content": STORY}, usage, timings=timings),
        TokenUsage(input_tokens=11, cached_input_tokens=7, output_tokens=3),
    )


def _plain(name: str, usage: Members, *, thinks: bool = False, **last: Any) -> Server:
    """A server that streams as OpenAI does, with an extra event for its usage."""
    thoughts = [chunk(says({"reasoning": text})) for text in THOUGHTS if thinks]
    speaks = [chunk(says({"role": "assistant", "content": word})) for word in WORDS]
    message = {"content": STORY} | ({"reasoning": "".join(THOUGHTS)} if thinks else {})
    prompt, completion = usage["prompt_tokens"], usage["completion_tokens"]
    return Server(
        name,
        (*thoughts, *speaks, chunk(STOP), chunk(usage=usage, **last), DONE),
        whole(message, usage, **last),
        TokenUsage(input_tokens=prompt, output_tokens=completion),
        (*(THOUGHTS if thinks else ()), *WORDS),
    )


def _with_the_last_choice(
    name: str,
    usage: Members,
    settled: TokenUsage,
    *,
    before: str | None = None,
    **choice: Any,
) -> Server:
    """A server whose usage comes with the last choice, asked for or not."""
    thoughts = [
        chunk(says({"content": None, "reasoning_content": text})) for text in THOUGHTS
    ]
    speaks = [
        chunk(says({"content": word, "reasoning_content": None})) for word in WORDS
    ]
    last = chunk({**STOP, "delta": {"content": ""}, **choice}, usage=usage)
    message = {"content": STORY, "reasoning_content": "".join(THOUGHTS)}
    return Server(
        name,
        (*([before] if before else []), *thoughts, *speaks, last, DONE),
        whole(message, usage),
        settled,
        (*THOUGHTS, *WORDS),
    )


def _mistral() -> Server:
    """Contents of parts, thoughts in parts of parts."""
    thinks: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
        for text in THOUGHTS
    ]
    parts = [*thinks, {"type": "text", "text": STORY}]
    usage = sums(18, 9)
    last = chunk({**STOP, "delta": {"content": ""}}, usage=usage)
    return Server(
        "Mistral",
        (
            *(chunk(says({"content": [part]})) for part in thinks),
            *(chunk(says({"content": word})) for word in WORDS),
            last,
            DONE,
        ),
        whole({"content": parts}, usage),
        TokenUsage(input_tokens=18, output_tokens=9),
        (*THOUGHTS, *WORDS),
    )


def _groq() -> Server:
    """Usage in a member of its own, with times beside the figures."""
    usage = sums(18, 9, queue_time=0.02, prompt_time=0.001, total_time=0.05)
    thoughts = [chunk(says({"reasoning": t, "channel": "analysis"})) for t in THOUGHTS]
    return Server(
        "Groq",
        (
            chunk(says({"role": "assistant", "content": ""}), x_groq={"id": "req_1"}),
            *thoughts,
            *(chunk(says({"content": word})) for word in WORDS),
            chunk(STOP, x_groq={"id": "req_1", "usage": usage}),
            DONE,
        ),
        whole({"content": STORY, "reasoning": "".join(THOUGHTS)}, usage, x_groq={}),
        TokenUsage(input_tokens=18, output_tokens=9),
        (*THOUGHTS, *WORDS),
    )


def _openrouter() -> Server:
    """Comments while it waits; reasoning twice; a cost; usage with an empty choice."""
    usage = sums(
        18,
        9,
        cost=0.00015,
        is_byok=False,
        cost_details={"upstream_inference_cost": None},
        prompt_tokens_details={"cached_tokens": 8, "audio_tokens": 0},
        completion_tokens_details={"reasoning_tokens": 4, "image_tokens": 0},
        native_tokens_prompt=20,
    )
    thoughts: list[dict[str, Any]] = [
        {
            "role": "assistant",
            "content": "",
            "reasoning": text,
            "reasoning_details": [{"type": "reasoning.text", "text": text}],
        }
        for text in THOUGHTS
    ]
    speaks = [{"role": "assistant", "content": word} for word in WORDS]
    waits = ": OPENROUTER PROCESSING"
    last = chunk(says({"role": "assistant", "content": ""}), usage=usage)
    stop = chunk({**STOP, "native_finish_reason": "completed"})
    told = [chunk(says(each)) for each in (*thoughts, *speaks)]
    return Server(
        "OpenRouter",
        (waits, waits, *told, stop, last, DONE),
        whole({"content": STORY, "reasoning": "".join(THOUGHTS)}, usage),
        TokenUsage(
            input_tokens=10, cached_input_tokens=8, output_tokens=5, reasoning_tokens=4
        ),
        (*THOUGHTS, *WORDS),
    )


def _together() -> Server:
    """The same text twice in a choice."""
    usage = sums(18, 3, cached_tokens=0)
    speaks = [
        chunk(
            {
                "text": word,
                **says({"role": "assistant", "content": word, "token_id": 9}),
            },
            usage=None,
        )
        for word in WORDS
    ]
    last = chunk({**STOP, "text": "", "seed": 7}, usage=usage)
    return Server(
        "Together",
        (*speaks, last, DONE),
        whole({"content": STORY, "tool_calls": []}, usage, prompt=[]),
        TokenUsage(input_tokens=18, output_tokens=3),
    )


def _perplexity() -> Server:
    """Running totals, and all of the answer so far beside what is new."""
    so_far = ["".join(WORDS[: at + 1]) for at in range(len(WORDS))]
    extras = {"citations": ["https://example.com"], "search_results": []}

    def event(new: str, known: str, generated: int) -> dict[str, Any]:
        message = {"role": "assistant", "content": known}
        choice = says({"role": "assistant", "content": new}, message=message)
        usage = sums(18, generated, search_context_size="low", num_search_queries=1)
        return chunk(choice, usage=usage, **extras)

    told = [
        event(new, known, at)
        for at, (new, known) in enumerate(zip(WORDS, so_far, strict=True), start=1)
    ]
    reply = whole({"content": STORY}, sums(18, 3), **extras)
    reply["choices"][0]["delta"] = {"role": "assistant", "content": ""}
    return Server(
        "Perplexity",
        (*told, event("", STORY, 3)),
        reply,
        TokenUsage(input_tokens=18, output_tokens=3),
    )


def _gemini() -> Server:
    """Thoughts are in the total only; running totals."""
    thought = {"extra_content": {"google": {"thought": True}}}
    usage = sums(18, 3) | {"total_tokens": 30}
    speaks = [
        chunk(says({"role": "assistant", "content": word, **thought}), usage=usage)
        for word in WORDS
    ]
    return Server(
        "Gemini",
        (*speaks, chunk(STOP, usage=usage), DONE),
        whole({"content": STORY}, usage),
        TokenUsage(input_tokens=18, output_tokens=12),
    )


def _moonshot() -> Server:
    """Usage within the last choice, the cached input beside the sums."""
    usage = sums(18, 9, cached_tokens=8)
    server = _with_the_last_choice(
        "Moonshot",
        usage,
        TokenUsage(input_tokens=10, cached_input_tokens=8, output_tokens=9),
    )
    *before, _, done = server.events
    last = chunk({**STOP, "usage": usage})
    return Server(
        "Moonshot", (*before, last, done), server.reply, server.usage, server.texts
    )


def _tgi() -> Server:
    """A tool call that is no list, with arguments that are no text."""
    call = {"index": 0, "type": "function"}
    pieces = [
        {"name": "weather", "arguments": '{"city":'},
        {"name": None, "arguments": '"Tokyo"}'},
    ]
    usage = sums(18, 9)
    whole_call = {"name": "weather", "arguments": {"city": "Tokyo"}}
    return Server(
        "Hugging Face's TGI",
        (
            *(
                chunk(says({"tool_calls": call | {"function": each}}))
                for each in pieces
            ),
            chunk(STOP, usage=usage),
            DONE,
        ),
        whole({"tool_calls": [call | {"function": whole_call}]}, usage),
        TokenUsage(input_tokens=18, output_tokens=9),
        ("weather", '{"city":', '"Tokyo"}'),
    )


_DETAILS = {
    "prompt_tokens_details": {"cached_tokens": 8, "text_tokens": 18},
    "completion_tokens_details": {"reasoning_tokens": 4, "audio_tokens": 0},
}
_SETTLED = TokenUsage(
    input_tokens=10, cached_input_tokens=8, output_tokens=5, reasoning_tokens=4
)
_HITS = {"prompt_cache_hit_tokens": 8, "prompt_cache_miss_tokens": 10}

SERVERS = (
    _vllm(),
    _sglang(),
    _llama_cpp(),
    _tgi(),
    _mistral(),
    _groq(),
    _openrouter(),
    _together(),
    _perplexity(),
    _gemini(),
    _moonshot(),
    _plain("Ollama", sums(18, 9), thinks=True, system_fingerprint="fp_ollama"),
    _plain("LM Studio", sums(18, 3), stats={"tokens_per_second": 51.4}),
    _plain("Cerebras", sums(18, 9), thinks=True, time_info={"total_time": 0.01}),
    _plain("Fireworks", sums(18, 3), perf_metrics={"server-time": "0.1"}),
    _with_the_last_choice(
        "DeepSeek",
        sums(18, 9, **_HITS, **_DETAILS),
        _SETTLED,
        before=": keep-alive",
        logprobs=None,
    ),
    _with_the_last_choice(
        "xAI",
        sums(18, 5, **_DETAILS, cost_in_usd_ticks=1_000_000_000_000)
        | {"total_tokens": 27},
        _SETTLED,
    ),
    _with_the_last_choice("DashScope", sums(18, 9, **_DETAILS), _SETTLED),
)
