"""What may be published is a policy that every sidecar could use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.policies import SMALL, edited, write
from tokenweir.core.errors import PolicyError
from tokenweir.governance.candidate import candidate_of, read_candidate

OVERLAYS = f"{SMALL}prices:\n  overlays:\n    - /etc/a.json\n    - /etc/b.json\n"


def problems(source: str, *, allow_files: bool = False) -> tuple[str, ...]:
    """Return what keeps *source* from being published."""
    with pytest.raises(PolicyError) as caught:
        candidate_of(source.encode(), allow_files=allow_files)
    return caught.value.problems


def test_a_policy(tmp_path: Path) -> None:
    """It is read as it was written, and without its secrets."""
    found = read_candidate(write(tmp_path, SMALL))

    assert found.content == SMALL
    assert found.policy.providers["openai"].credential is None


def test_all_problems_are_told() -> None:
    """Each mistake is told with its place, those of price files too."""
    wrong = OVERLAYS.replace("60000", "0").replace("provider: claude", "provider: no")

    told = problems(wrong)

    assert [line.partition(":")[0] for line in told] == [
        "models.claude-*.provider",
        "tenants.acme.quotas.1.tokens_per_minute",
        "prices.overlays.0",
        "prices.overlays.1",
    ]
    assert "--allow-files" in told[-1]
    assert told[-1].endswith("(line 18)")


def test_files_of_prices_are_their_authors_choice() -> None:
    """Who says that each sidecar has them may publish; other mistakes stay."""
    assert candidate_of(OVERLAYS.encode(), allow_files=True).content == OVERLAYS
    assert len(problems(OVERLAYS.replace("60000", "0"), allow_files=True)) == 1


def test_files_of_secrets_are_each_pods() -> None:
    """A secret is never in the policy, so its file may be named."""
    content = edited("env:OPENAI_API_KEY", "file:/run/secrets/openai")

    assert candidate_of(content.encode()).content == content


@pytest.mark.parametrize(
    "source", ["", "[]", "prices: 1", "prices: {overlays: 1}", "{"]
)
def test_what_is_no_policy(source: str) -> None:
    """It is refused, whatever it is."""
    assert problems(source)


def test_what_is_no_text() -> None:
    """What is signed and shown is UTF-8, though YAML may be more."""
    with pytest.raises(PolicyError, match="UTF-8"):
        candidate_of(SMALL.encode("utf-16"))


def test_what_is_no_file(tmp_path: Path) -> None:
    """A file that is not there, or too large, is told as such."""
    with pytest.raises(PolicyError, match="can't be read"):
        read_candidate(tmp_path / "none.yaml")
    (tmp_path / "large.yaml").write_text("#" * (4 * 1024 * 1024 + 1))
    with pytest.raises(PolicyError, match="larger than"):
        read_candidate(tmp_path / "large.yaml")
