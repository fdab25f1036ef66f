"""Whether the tokenizers' files of a policy can be loaded, for `tokenweir check`."""

from __future__ import annotations

from collections.abc import Iterator

from tokenweir.core.errors import PolicyError
from tokenweir.core.policy import Policy
from tokenweir.core.tokenizer_name import path_in


def load_tokenizers(policy: Policy) -> None:
    """
    Load each file that *policy* counts with: it takes up to some seconds.

    Raises:
        PolicyError: Some can't be loaded.
    """
    problems = [*_problems(policy)]
    if problems:
        raise PolicyError(problems)


def _problems(policy: Policy) -> Iterator[str]:
    models = (*policy.models.values(), *policy.model_families)
    named = [model for model in models if path_in(model.tokenizer) is not None]
    if not named:
        return
    from tokenweir.tokenizers.tokenizer_file import (  # noqa: PLC0415 -- slow
        TokenizerFileError,
        load_file,
    )

    for model in named:
        assert model.tokenizer is not None
        try:
            load_file(model.tokenizer)
        except TokenizerFileError as error:
            yield f"models.{model.name}.tokenizer: {path_in(model.tokenizer)} {error}"
