"""The fast counter counts what tiktoken counts, whatever the text; or it is not used."""

from __future__ import annotations

import random
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from tokenweir.core.model_family import CL100K, O200K
from tokenweir.tokenizers import fast
from tokenweir.tokenizers.encode import Encode
from tokenweir.tokenizers.fast import SWITCH, fast_encoder
from tokenweir.tokenizers.text_counter import SLICE_CHARS
from tokenweir.tokenizers.vocabulary import load_encoding

pytest.importorskip("quicktok", reason="needs the extra `fast`")

NAMES = (O200K, CL100K)
PATHOLOGICAL = {
    "letters": "A" * SLICE_CHARS,
    "blanks": " " * SLICE_CHARS,
    "lines": "\n" * SLICE_CHARS,
    "other lines": "\r\n\r \n" * 2_000,
    "marks": "!?" * 5_000,
    "digits": "0123456789" * 1_000,
    "tabs": "\t " * 5_000,
    "contractions": "'s'T'LL'Ve'D'm'RE \u017f'\u017f'\u212a" * 700,
    "emoji": "👩‍👩‍👧🇯🇵🏽" * 1_000,
    "joiners": "\u200d\ufe0f" * 3_000,
    "combining": "e\u0301\u0323" * 3_000,
    "blanks of Unicode": "\u00a0\u2003\u2028\u0085\u3000\ufeff" * 1_000,
    "nothing": "",
    "zeros": "\0" * SLICE_CHARS,
    "special": "<|endoftext|><|im_start|>system<|fim_prefix|>" * 200,
    "half pairs": "\ud83d" * 3_000,
    "mixed half pairs": "a\udc00 b\ud800\n" * 1_000,
    "pairs in halves": "\ud83d\ude00" * 1_000,
    "noncharacters": "\uffff\ufdd0\U0010ffff" * 1_000,
    "base64": "TWFuIGlzIGRpc3Rpbmd1aXNoZWQ" * 370,
}
# First and last characters of what random texts are made of.
SCRIPTS = (
    *((0x20, 0x7E), (0x00, 0xFF), (0x400, 0x52F), (0x590, 0x6FF), (0x900, 0xE7F)),
    *((0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x1F300, 0x1FAFF)),
    *((0x00, 0xD7FF), (0xE000, 0x10FFFF), (0x2000, 0x2BFF)),
)


@cache
def slow(name: str) -> Encode:
    """Return tiktoken's encoder."""
    return load_encoding(name).encode_ordinary


def quick(name: str) -> Encode:
    """Return the fast one."""
    found = fast_encoder(name)
    assert found is not None
    return found


def corpus() -> Iterator[str]:
    """Yield source code and what documents there are, in slices."""
    root = Path(__file__).parents[2]
    files = [*sorted(Path(sysconfig.get_paths()["stdlib"]).glob("[a-d]*.py"))[:25]]
    files += [*sorted((root / "docs").glob("*.md")), root / "docs/policy.schema.json"]
    files += [*sorted((root.parent / "shared" / "fixtures").rglob("*.json"))[:40]]
    for file in files:
        text = file.read_text(errors="replace")[: 10 * SLICE_CHARS]
        yield from (text[at : at + 997] for at in range(0, len(text), 997))


def random_texts(count: int) -> Iterator[str]:
    """Yield texts of one script each, with all kinds of blanks between."""
    rng = random.Random(20_26)
    for _ in range(count):
        first, last = rng.choice(SCRIPTS)
        blank = rng.choice(["", " ", "  ", "\n", "\r\n", "\t", "'", "\u00a0", "\ud800"])
        yield "".join(
            chr(rng.randint(first, last)) if rng.random() < 0.8 else blank
            for _ in range(rng.randint(1, 80))
        )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", PATHOLOGICAL)
def test_hard_texts(name: str, kind: str) -> None:
    """Each has as many tokens as tiktoken finds."""
    text = PATHOLOGICAL[kind]

    assert len(quick(name)(text)) == len(slow(name)(text))


@pytest.mark.parametrize("name", NAMES)
def test_corpora(name: str) -> None:
    """So has each piece of source code, prose and JSON."""
    count, reference = quick(name), slow(name)
    different = [text for text in corpus() if len(count(text)) != len(reference(text))]

    assert different == []


@pytest.mark.parametrize("name", NAMES)
def test_random_texts(name: str) -> None:
    """And whatever else Unicode has."""
    count, reference = quick(name), slow(name)
    texts = random_texts(3_000)
    different = [text for text in texts if len(count(text)) != len(reference(text))]

    assert different == []


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the environment, whatever is installed."""
    monkeypatch.setenv(SWITCH, "0")

    assert fast_encoder(O200K) is None


def test_one_that_is_not_installed_or_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves it to tiktoken; and so does one that panics."""
    monkeypatch.setitem(fast._PROBES, O200K, 1)
    assert fast_encoder(O200K) is None
    monkeypatch.undo()

    broken = ModuleType("quicktok")
    panic = type("PanicException", (BaseException,), {})
    for fault in (KeyError("none"), panic()):

        def raising(name: str, fault: BaseException = fault) -> None:
            raise fault

        monkeypatch.setattr(broken, "get_encoding", raising, raising=False)
        monkeypatch.setitem(sys.modules, "quicktok", broken)
        assert fast_encoder(O200K) is None
    monkeypatch.setitem(sys.modules, "quicktok", None)
    assert fast_encoder(O200K) is None


def test_a_wish_to_stop_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while it is loaded ends the process."""
    broken = ModuleType("quicktok")

    def stop(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(broken, "get_encoding", stop, raising=False)
    monkeypatch.setitem(sys.modules, "quicktok", broken)
    with pytest.raises(KeyboardInterrupt):
        fast_encoder(O200K)
