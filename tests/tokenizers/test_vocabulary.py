"""The vocabularies that are carried along."""

import gzip
from importlib import import_module, resources
from pathlib import Path

import pytest

from tests.tokenizers.files import write_tokenizer
from tokenweir.core.model_family import CL100K, FAMILIES, O200K
from tokenweir.core.tokenizer_name import file_name
from tokenweir.tokenizers import vocabulary as vocabulary_module
from tokenweir.tokenizers.fast import SWITCH
from tokenweir.tokenizers.vocabulary import (
    SUPPORTED,
    Vocabularies,
    VocabularyError,
    load_encoding,
)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        (O200K, {"hello world": 2, "吾輩は猫である。": 8, " " * 100: 2, "": 0}),
        (CL100K, {"hello world": 2, "吾輩は猫である。": 13, " " * 100: 2, "": 0}),
    ],
)
def test_encoders_count_as_published(name: str, counts: dict[str, int]) -> None:
    """Each vocabulary encodes as OpenAI's does, and reads back what it was given."""
    encoding = load_encoding(name)

    assert {text: len(encoding.encode_ordinary(text)) for text in counts} == counts
    for text in counts:
        assert encoding.decode(encoding.encode_ordinary(text)) == text


@pytest.mark.parametrize("name", SUPPORTED)
def test_texts_are_split_as_published(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The patterns are those of tiktoken itself, without its special tokens."""
    openai_public = import_module("tiktoken_ext.openai_public")
    ranks = {bytes((octet,)): octet for octet in range(256)}
    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda *_, **__: ranks)
    encoding = load_encoding(name)

    assert encoding._pat_str == openai_public.ENCODING_CONSTRUCTORS[name]()["pat_str"]
    assert encoding._special_tokens == {}


def test_every_family_has_its_vocabulary() -> None:
    """No family names a vocabulary that is not carried."""
    assert {family.vocabulary for family in FAMILIES.values()} == set(SUPPORTED)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (None, "cannot be read"),
        (b"no gzip", "cannot be read"),
        (gzip.compress(b"IQ== 0\n", mtime=0)[:-4], "cannot be read"),
        (gzip.compress(b"IQ== 0\n", mtime=0), "not the published table"),
    ],
    ids=["missing", "other format", "cut", "changed"],
)
def test_a_table_that_is_not_the_published_one_is_refused(
    table: bytes | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not have the published digest is not used, and that is told."""
    monkeypatch.setattr(resources, "files", lambda _: tmp_path)
    monkeypatch.setenv(SWITCH, "0")
    if table is not None:
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / f"{O200K}.tiktoken.gz").write_bytes(table)
    faults: list[tuple[str, BaseException]] = []
    vocabularies = Vocabularies(lambda where, fault: faults.append((where, fault)))

    with pytest.raises(VocabularyError, match=why):
        load_encoding(O200K)
    assert vocabularies.get(O200K) is None
    assert vocabularies.get(O200K) is None
    assert vocabularies.loaded(O200K)
    assert [where for where, _ in faults] == ["loading a vocabulary"]


def test_a_vocabulary_is_loaded_once() -> None:
    """Whoever asks second gets the same encoder."""
    vocabularies = Vocabularies(lambda *_: None)

    assert not vocabularies.loaded(CL100K)
    encode = vocabularies.get(CL100K)

    assert encode is not None
    assert vocabularies.loaded(CL100K)
    assert vocabularies.get(CL100K) is encode


def test_a_file_that_changes_is_loaded_again(tmp_path: Path) -> None:
    """Once it is good; what was good before counts until then, and a fault is told."""
    pytest.importorskip("tokenizers", reason="needs the extra `tokenizers`")
    faults: list[str] = []
    vocabularies = Vocabularies(lambda where, _: faults.append(where))
    path = write_tokenizer(tmp_path)
    name = file_name(str(path))
    first = vocabularies.get(name)
    vocabularies.refresh()
    assert vocabularies.get(name) is first is not None

    path.write_text("{}")
    vocabularies.refresh()
    vocabularies.refresh()
    assert vocabularies.get(name) is first
    assert faults == ["loading a vocabulary"]

    path.unlink()
    vocabularies.refresh()
    assert vocabularies.get(name) is first

    write_tokenizer(tmp_path)
    vocabularies.refresh()
    assert vocabularies.get(name) not in (None, first)
    assert not vocabularies.failed(name)


def test_a_file_that_is_broken_is_known_to_be(tmp_path: Path) -> None:
    """So that whoever counts can do without it."""
    vocabularies = Vocabularies(lambda *_: None)
    name = file_name(str(tmp_path / "none.json"))

    assert not vocabularies.failed(name)
    assert vocabularies.get(name) is None
    assert vocabularies.failed(name)


def test_ctrl_c_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wishes to stop while something is loaded stops."""

    def stop(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(vocabulary_module, "fast_encoder", stop)
    with pytest.raises(KeyboardInterrupt):
        Vocabularies(lambda *_: None).get(O200K)


def test_what_is_fast_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it is loaded, and of each vocabulary by itself; tiktoken is not."""
    fakes = {O200K: lambda text: range(len(text))}
    monkeypatch.setattr(vocabulary_module, "fast_encoder", fakes.get)
    vocabularies = Vocabularies(lambda *_: None)

    assert not vocabularies.is_fast(O200K)
    assert vocabularies.get(O200K) is fakes[O200K]
    assert vocabularies.get(CL100K) is not None
    assert vocabularies.is_fast(O200K)
    assert not vocabularies.is_fast(CL100K)
