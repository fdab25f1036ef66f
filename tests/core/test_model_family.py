"""Families by the names of models."""

import pytest

from tokenweir.core.media_tokens import CellRule, PatchRule, TileRule
from tokenweir.core.model_family import CL100K, FAMILIES, O200K, family_for


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("gpt-4o", O200K),
        ("gpt-4o-mini-2024-07-18", O200K),
        ("GPT-4.1", O200K),
        ("gpt-4.5-preview", O200K),
        ("gpt-5.4-mini", O200K),
        ("gpt-7", O200K),
        ("gpt-oss-120b", O200K),
        ("chatgpt-4o-latest", O200K),
        ("o3-mini", O200K),
        ("codex-mini-latest", O200K),
        ("openai/gpt-4o", O200K),
        ("ft:gpt-4o-mini-2024-07-18:acme::x", O200K),
        ("gpt-4", CL100K),
        ("gpt-4-0613", CL100K),
        ("gpt-4-turbo", CL100K),
        ("azure/gpt-35-turbo", CL100K),
        ("gpt-3.5-turbo", CL100K),
        ("text-embedding-3-small", CL100K),
        ("babbage-002", CL100K),
        ("claude-sonnet-4-5", "claude-3"),
        ("claude-3-5-haiku-20241022", "claude-3"),
        ("claude-opus-4-20250514", "claude-3"),
        ("claude-2.1", "claude-3"),
        ("anthropic.claude-v2:1", "claude-3"),
        ("anthropic.claude-3-haiku-20240307-v1:0", "claude-3"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-3"),
        ("claude-opus-4-7", "claude-4.7"),
        ("claude-opus-4.8", "claude-4.7"),
        ("claude-opus-4-10", "claude-4.7"),
        ("us.anthropic.claude-opus-4-8-v1", "claude-4.7"),
        ("vertex/claude-sonnet-5@20260101", "claude-4.7"),
        ("claude-latest", "claude-4.7"),
        ("Qwen/Qwen3-32B", "qwen"),
        ("qwq-32b", "qwen"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama"),
        ("deepseek-r1-distill-llama-70b", "llama"),
        ("deepseek-chat", "deepseek"),
        ("Qwen/Qwen3.5-27B", "qwen-3.5"),
        ("qwen3.6-35b-a3b", "qwen-3.5"),
        ("qwen-4-max", "qwen-3.5"),
        ("qwen2.5-72b-instruct", "qwen"),
        ("qwen3-8b", "qwen"),
        ("gemini-2.5-pro", "gemini"),
        ("google/gemma-3-27b-it", "gemini"),
        ("models/gemini-3-flash", "gemini"),
        ("mistral-large", "default"),
        ("", "default"),
    ],
)
def test_names_tell_the_family(model: str, family: str) -> None:
    """A model's name, with or without its vendor's prefixes, has one family."""
    assert family_for(model).name == family


def test_the_policy_knows_better() -> None:
    """A tokenizer that the policy names wins; one that does not exist is ignored."""
    assert family_for("my-model", "qwen") is FAMILIES["qwen"]
    assert family_for("my-model", O200K).name == O200K
    assert family_for("gpt-4", "no such family").name == CL100K


def test_only_openai_counts_are_exact() -> None:
    """OpenAI's families have their own vocabulary, all others have ratios."""
    exact = {name for name, family in FAMILIES.items() if family.ratios is None}

    assert exact == {O200K, CL100K}
    assert all(name == family.name for name, family in FAMILIES.items())
    assert {family.vocabulary for family in FAMILIES.values()} == {O200K, CL100K}


def test_tools_cost_more_around_them_since_gpt_5() -> None:
    """As recorded; older models have what was worked out for them."""
    assert family_for("gpt-5-nano").framing.tools == 90
    assert family_for("gpt-6.1").framing.tools == 90
    assert family_for("gpt-4o").framing.tools == family_for("o3").framing.tools == 9


@pytest.mark.parametrize(
    ("model", "rule"),
    [
        ("gpt-4o", TileRule(85, 170)),
        ("gpt-4o-mini", TileRule(2_833, 5_667)),
        ("gpt-4.1", TileRule(85, 170)),
        ("gpt-5", TileRule(70, 140)),
        ("gpt-5.1-codex", TileRule(70, 140)),
        ("o3", TileRule(75, 150)),
        ("o3-mini", TileRule(75, 150)),
        ("computer-use-preview", TileRule(65, 129)),
        ("gpt-image-1.5", TileRule(65, 129, short=512, faithful=6_240)),
        ("claude-opus-4-6", CellRule(1568, 1568)),
        ("claude-opus-4-8", CellRule(2576, 4784)),
    ],
)
def test_names_tell_the_price_of_pictures(
    model: str, rule: TileRule | CellRule
) -> None:
    """Tiles for OpenAI's older models, cells for Anthropic's."""
    assert family_for(model).media.images == rule


@pytest.mark.parametrize(
    ("model", "factor", "usual", "low"),
    [
        ("gpt-4.1-mini", 1.62, 6_144, 6_144),
        ("gpt-4.1-nano", 2.46, 6_144, 6_144),
        ("gpt-5-mini", 1.62, 6_144, 6_144),
        ("gpt-5-nano", 2.46, 6_144, 6_144),
        ("o4-mini", 1.72, 6_144, 6_144),
        ("gpt-5.2", 1.2, 6_144, 6_144),
        ("gpt-5.4-nano", 1.2, 2_500, 6_144),
        ("gpt-5.5", 1.2, 10_000, 256),
        ("gpt-5.6-sol", 1.2, 30_000, 256),
        ("gpt-5.12", 1.2, 30_000, 256),
        ("gpt-6-astra", 1.2, 30_000, 256),
    ],
)
def test_newer_models_count_patches(
    model: str, factor: float, usual: int, low: int
) -> None:
    """Patches for OpenAI's newer and smaller models, by factor and budget."""
    rule = family_for(model).media.images

    assert isinstance(rule, PatchRule)
    assert rule.factor == factor
    assert rule.low.patches == low
    assert usual == (rule.original or rule.high if rule.full else rule.high).patches


def test_gemini_charges_squares_and_since_3_resolutions() -> None:
    """Sound, film and pages have their own rates."""
    older, newer = (
        family_for("gemini-2.5-pro").media,
        family_for("gemini-3-flash").media,
    )

    assert older.images.tokens(None, None) == 24 * 258
    assert newer.images.tokens(None, None) == 1_120
    assert (older.audio, older.page_tokens) == (32, 258)
    assert (newer.audio, newer.page_tokens) == (32, 560)
    assert older.video > 263 > newer.video > family_for("gpt-4o").media.video
    assert family_for("qwen2.5-vl-72b").media.video == 300
    assert family_for("gemini-10-pro").media == newer
    assert family_for("google/gemma-3-27b-it").media == older
