"""
Which tokenizer a model has, and which rules its provider charges by.

Theory of operation: two vocabularies are carried, OpenAI's o200k_base and
cl100k_base. They count OpenAI's models exactly. Everything else is counted with
o200k_base and multiplied by the family's ratios, one per class of characters
(`tokenweir.core.text_classes`).

The ratios were fitted on the corpora named there, against Qwen's, Llama's and
DeepSeek's own tokenizers, and against an independent reconstruction of Claude's,
whose maker does not publish it. Median error on English, Japanese, Chinese, code,
JSON and logs, also of files that they were not fitted on: 3 to 8 %. `indic` and
`other` span many scripts of different cost, so they are set high rather than at
the mean; European languages with few accents come out up to a quarter low.

A name that is not known here is a newer one. So numbers are compared, not listed,
and an unknown OpenAI name has o200k_base. The names change more often than the
rules: only `family_for` reads them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tokenweir.core.media_tokens import (
    CellRule,
    ImageRule,
    PatchLimit,
    PatchRule,
    TileRule,
)
from tokenweir.core.text_classes import ByClass

O200K = "o200k_base"
CL100K = "cl100k_base"


@dataclass(frozen=True, slots=True)
class Framing:
    """
    Tokens around the text of a prompt.

    Attributes:
        message: Per message.
        reply: Once, for the beginning of the answer.
        role: Whether the role is written as text.
        tools: Once, if there are tools.
        typescript: Tools are shown as TypeScript, not as JSON.
    """

    message: int = 3
    reply: int = 3
    role: bool = True
    tools: int = 9
    typescript: bool = True


_GPT_4O_IMAGES = TileRule(85, 170)


@dataclass(frozen=True, slots=True)
class Family:
    """
    Models that count alike.

    Attributes:
        name: As a policy may call it.
        vocabulary: What text is counted with: `O200K` or `CL100K`.
        ratios: The family's tokens per counted token; None: the count is exact.
        framing: Tokens around the text.
        images: The rule for pictures.
        audio_tokens_per_second: The rate for sounds.
    """

    name: str
    vocabulary: str = O200K
    ratios: ByClass | None = None
    framing: Framing = Framing()
    images: ImageRule = _GPT_4O_IMAGES
    audio_tokens_per_second: int = 10


_JSON_TOOLS = Framing(message=4, reply=4, tools=100, typescript=False)
# Up to 4.6 the provider adds 346 tokens of instructions if there are tools; later
# figures are not published, and have been seen to be higher.
_CLAUDE = Framing(message=4, reply=3, role=False, tools=346, typescript=False)
_NEW_CLAUDE = Framing(message=4, reply=2, role=False, tools=500, typescript=False)

# Vision models that people run themselves: about Qwen's and Llama's defaults.
_OPEN_WEIGHTS = CellRule(side=2048, most=3_000)

_FAMILIES = (
    Family(O200K),
    Family(CL100K, vocabulary=CL100K),
    Family(
        "claude-3",  # up to 4.6
        ratios=ByClass(1.2, 0.75, 1.45, 1.32, 1.9, 2.4, 2.0),
        framing=_CLAUDE,
        images=CellRule(side=1568, most=1568),
    ),
    Family(
        "claude-4.7",  # and later
        ratios=ByClass(1.66, 0.8, 1.6, 1.3, 1.9, 2.4, 2.0),
        framing=_NEW_CLAUDE,
        images=CellRule(side=2576, most=4784),
    ),
    Family(
        "qwen",
        ratios=ByClass(1.08, 1.75, 1.1, 0.8, 1.1, 2.9, 1.6),
        framing=_JSON_TOOLS,
        images=_OPEN_WEIGHTS,
    ),
    Family(
        "llama",
        ratios=ByClass(1.04, 1.03, 1.0, 0.97, 1.02, 3.0, 1.4),
        framing=_JSON_TOOLS,
        images=_OPEN_WEIGHTS,
    ),
    Family(
        "deepseek",
        ratios=ByClass(1.07, 1.0, 1.08, 0.78, 1.17, 1.7, 1.3),
        framing=_JSON_TOOLS,
        images=_OPEN_WEIGHTS,
    ),
    Family(
        "default",
        ratios=ByClass(1.08, 1.5, 1.12, 1.0, 1.2, 2.4, 1.6),
        framing=_JSON_TOOLS,
        images=_OPEN_WEIGHTS,
        audio_tokens_per_second=32,  # Gemini's, the highest that is published
    ),
)

FAMILIES: Mapping[str, Family] = {family.name: family for family in _FAMILIES}
"""By name: what a policy's `tokenizer` may say."""

# A name without its vendor and path: "us.anthropic.", "azure/", "ft:", "openai/".
_PREFIX = re.compile(r"^(?:ft:|.*/|(?:[a-z]+\.)*anthropic\.)+")
_CLAUDE_NAME = re.compile(r"claude(?:-[a-z]+)*-v?(\d+)(?:[-.](\d{1,2})(?!\d))?")
_CL100K_NAME = re.compile(
    r"gpt-4(?![.\do])|gpt-3\.?5|text-embedding-|(?:davinci|babbage)-002"
)
_OPENAI_NAME = re.compile(r"gpt|chatgpt|o\d|codex|computer-use|omni-|text-")
_OTHER_NAMES = (
    (re.compile(r"claude"), "claude-4.7"),
    (re.compile(r"qwen|qwq|qvq"), "qwen"),
    (re.compile(r"llama"), "llama"),  # before DeepSeek's distillates of it
    (re.compile(r"deepseek"), "deepseek"),
)

_HIGH = PatchLimit(2048, 2_500)
_SIX_THOUSAND = PatchLimit(2048, 6_144)
_ORIGINAL = PatchLimit(6_000, 10_000)
_UNLIMITED = PatchLimit(65_535, 30_000)
_THUMBNAIL = PatchLimit(512, 256)

# The first that matches. Last come names that are newer than this table.
_OPENAI_IMAGES: tuple[tuple[re.Pattern[str], ImageRule], ...] = (
    (re.compile(r"gpt-4o-mini"), TileRule(2_833, 5_667)),
    (re.compile(r"gpt-4\.1-mini"), PatchRule(1.62, _SIX_THOUSAND, _SIX_THOUSAND)),
    (re.compile(r"gpt-4\.1-nano"), PatchRule(2.46, _SIX_THOUSAND, _SIX_THOUSAND)),
    (re.compile(r"o4-mini|codex-mini"), PatchRule(1.72, _SIX_THOUSAND, _SIX_THOUSAND)),
    (re.compile(r"gpt-5-mini"), PatchRule(1.62, _SIX_THOUSAND, _SIX_THOUSAND)),
    (re.compile(r"gpt-5-nano"), PatchRule(2.46, _SIX_THOUSAND, _SIX_THOUSAND)),
    (re.compile(r"o\d"), TileRule(75, 150)),
    (re.compile(r"computer-use"), TileRule(65, 129)),
    (re.compile(r"gpt-5(?:\.1)?(?![.\d])"), TileRule(70, 140)),
    (re.compile(r"gpt-5\.[23]"), PatchRule(1.2, _SIX_THOUSAND, _SIX_THOUSAND)),
    (re.compile(r"gpt-5\.4"), PatchRule(1.2, _HIGH, _SIX_THOUSAND, _ORIGINAL)),
    (re.compile(r"gpt-5\.5"), PatchRule(1.2, _HIGH, _THUMBNAIL, _ORIGINAL, full=True)),
    (
        re.compile(r"gpt-5\.(?:[6-9]|\d\d)"),
        PatchRule(1.2, _HIGH, _THUMBNAIL, _UNLIMITED, full=True),
    ),
    (
        re.compile(r"gpt-[6-9]"),
        PatchRule(1.2, PatchLimit(65_535, 2_500), _THUMBNAIL, _UNLIMITED, full=True),
    ),
    (re.compile(r""), _GPT_4O_IMAGES),
)


@functools.lru_cache(maxsize=1024)
def family_for(model: str, tokenizer: str | None = None) -> Family:
    """
    Return how *model* counts.

    *tokenizer*, a name out of `FAMILIES`, takes the place of what the model's name
    says; one that is not there changes nothing.
    """
    name = _PREFIX.sub("", model.lower())
    family = FAMILIES.get(tokenizer or "") or FAMILIES[_family_name(name)]
    if family.ratios is None and family.framing.typescript:
        return replace(family, images=_openai_images(name))
    return family


def _family_name(name: str) -> str:
    claude = _CLAUDE_NAME.search(name)
    if claude:
        version = int(claude[1]), int(claude[2] or 0)
        return "claude-4.7" if version >= (4, 7) else "claude-3"
    for pattern, family in _OTHER_NAMES:
        if pattern.search(name):
            return family
    if _CL100K_NAME.match(name):
        return CL100K
    return O200K if _OPENAI_NAME.match(name) else "default"


def _openai_images(name: str) -> ImageRule:
    return next(rule for pattern, rule in _OPENAI_IMAGES if pattern.match(name))
