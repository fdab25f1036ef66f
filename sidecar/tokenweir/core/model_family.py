"""
Which tokenizer a model has, and which rules its provider charges by.

Theory of operation: two vocabularies are carried, OpenAI's o200k_base and
cl100k_base. They count OpenAI's models exactly. Everything else is counted with
o200k_base, and the count is carried over by the family's figures
(`tokenweir.core.text_classes`, `tokenweir.core.conversions`). How far that is off is
in ``docs/accuracy.md``.

A name that is not known here is a newer one. So numbers are compared, not listed,
and an unknown OpenAI name has o200k_base. The names change more often than the
rules: only `family_for` reads them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tokenweir.core.conversions import CONVERSIONS
from tokenweir.core.media_tokens import (
    CellRule,
    ImageRule,
    PatchLimit,
    PatchRule,
    Rates,
    ResolutionRule,
    SquareRule,
    TileRule,
)
from tokenweir.core.text_classes import Conversion

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
_GPT_4O_MEDIA = Rates(_GPT_4O_IMAGES)


@dataclass(frozen=True, slots=True)
class Family:
    """
    Models that count alike.

    Attributes:
        name: As a policy may call it.
        vocabulary: What text is counted with: `O200K` or `CL100K`.
        ratios: How a count is carried over to its tokenizer; None: it is exact.
        framing: Tokens around the text.
        media: What pictures, sounds, films and files cost.
    """

    name: str
    vocabulary: str = O200K
    ratios: Conversion | None = None
    framing: Framing = Framing()
    media: Rates = _GPT_4O_MEDIA


# From GPT-5 on there is more around tools than their definitions. How much, nobody says:
# what a recorded request of GPT-5 nano was charged beyond them.
_MANY_TOOLS = Framing(tools=90)
_JSON_TOOLS = Framing(message=4, reply=4, tools=100, typescript=False)
# Up to 4.6 the provider adds 346 tokens of instructions if there are tools; later
# figures are not published, and have been seen to be higher.
_CLAUDE = Framing(message=4, reply=3, role=False, tools=346, typescript=False)
_NEW_CLAUDE = Framing(message=4, reply=2, role=False, tools=500, typescript=False)

# Vision models that people run themselves: about Qwen's and Llama's defaults.
_OPEN_WEIGHTS = Rates(CellRule(side=2048, most=3_000), video=300)
# https://ai.google.dev/gemini-api/docs/tokens: 258 a square and a page, 32 a second of
# sound, 263 of film; with its sound.
_GEMINI = Rates(SquareRule(), audio=32, video=295, page=258)
# https://ai.google.dev/gemini-api/docs/media-resolution: 70 a frame, one a second.
_GEMINI_3 = Rates(ResolutionRule(), audio=32, video=110, page=560)

_FAMILIES = (
    Family(O200K),
    Family(CL100K, vocabulary=CL100K),
    Family(
        "claude-3",  # up to 4.6
        ratios=CONVERSIONS["claude-3"],
        framing=_CLAUDE,
        media=Rates(CellRule(side=1568, most=1568)),
    ),
    Family(
        "claude-4.7",  # and later
        ratios=CONVERSIONS["claude-4.7"],
        framing=_NEW_CLAUDE,
        media=Rates(CellRule(side=2576, most=4784)),
    ),
    Family(
        "qwen",
        ratios=CONVERSIONS["qwen"],
        framing=_JSON_TOOLS,
        media=_OPEN_WEIGHTS,
    ),
    Family(
        "qwen-3.5",  # and later: another vocabulary
        ratios=CONVERSIONS["qwen-3.5"],
        framing=_JSON_TOOLS,
        media=_OPEN_WEIGHTS,
    ),
    Family(
        "llama",
        ratios=CONVERSIONS["llama"],
        framing=_JSON_TOOLS,
        media=_OPEN_WEIGHTS,
    ),
    Family(
        "deepseek",
        ratios=CONVERSIONS["deepseek"],
        framing=_JSON_TOOLS,
        media=_OPEN_WEIGHTS,
    ),
    Family(
        "gemini",  # and Gemma
        ratios=CONVERSIONS["gemini"],
        framing=_JSON_TOOLS,
        media=_GEMINI,
    ),
    Family(
        "default",
        ratios=CONVERSIONS["default"],
        framing=_JSON_TOOLS,
        media=replace(_OPEN_WEIGHTS, audio=32),  # Gemini's, the highest known
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
_SINCE_GPT_5 = re.compile(r"gpt-(?:[5-9]|\d\d)")
_SINCE_GEMINI_3 = re.compile(r"gemini-(?:[3-9]|\d\d)")
_OTHER_NAMES = (
    (re.compile(r"claude"), "claude-4.7"),
    (re.compile(r"qwen-?(?:3\.[5-9]|[4-9])"), "qwen-3.5"),
    (re.compile(r"qwen|qwq|qvq"), "qwen"),
    (re.compile(r"gemini|gemma|learnlm"), "gemini"),
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
    # https://platform.openai.com/docs/guides/image-generation: what is given to it.
    (re.compile(r"(?:chat)?gpt-image"), TileRule(65, 129, short=512, faithful=6_240)),
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
        framing = _MANY_TOOLS if _SINCE_GPT_5.match(name) else family.framing
        return replace(family, framing=framing, media=Rates(_openai_images(name)))
    if family.media is _GEMINI and _SINCE_GEMINI_3.search(name):
        return replace(family, media=_GEMINI_3)
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
