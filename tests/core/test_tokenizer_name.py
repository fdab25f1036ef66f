"""Names of tokenizers."""

from tokenweir.core.tokenizer_name import file_name, path_in


def test_files_and_families() -> None:
    """A file is told from a family, and has its path."""
    assert path_in(file_name("/x/tokenizer.json")) == "/x/tokenizer.json"
    assert path_in("qwen") is None
    assert path_in(None) is None
