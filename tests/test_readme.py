"""The README: short, and true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tokenweir import __version__
from tokenweir.cli.main import SUBCOMMANDS
from tokenweir.config.load import load_policy

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(ROOT.glob("docs/**/*.md"))]
MAX_WORDS = 700


def blocks(language: str) -> list[str]:
    """Return the README's code blocks in *language*."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_it_is_read_in_three_minutes() -> None:
    """There are no more words than a newcomer reads."""
    assert len(README.split()) <= MAX_WORDS


def test_its_policy_can_be_used(tmp_path: Path) -> None:
    """The example is a policy, of ten lines or little more."""
    (text,) = blocks("yaml")
    path = tmp_path / "policy.yaml"
    path.write_text(text)

    policy = load_policy(path, {"OPENAI_API_KEY": "sk-of-the-provider"})

    assert list(policy.tenants) == ["acme"]
    assert text.count("\n") <= 12


def test_its_commands_are_there() -> None:
    """Every make target and every subcommand that it names exists."""
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))

    assert set(re.findall(r"\bmake ([a-z]+)", "".join(blocks("sh")))) <= targets
    assert set(re.findall(r"`make ([a-z]+)", README)) <= targets
    assert set(re.findall(r"`tokenweir ([a-z]+)", README)) <= set(SUBCOMMANDS)


def test_its_map_is_of_this_tree() -> None:
    """Every place on the map exists."""
    (map_,) = (block for block in blocks("text") if "sidecar/tokenweir/" in block)
    named = [
        (ROOT / "sidecar/tokenweir" if line.startswith("  ") else ROOT) / place
        for line in map_.splitlines()
        for place in re.findall(r"\S+", re.split(r"  +", line.strip())[0])
    ]

    assert len(named) > 10
    assert [place for place in named if not place.exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every link to a file of this repository has one at its end."""
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    local = [target for target in targets if "://" not in target]

    assert [target for target in local if not (page.parent / target).exists()] == []


def test_the_index_of_docs_has_every_page() -> None:
    """docs/README.md links to all that is beside it."""
    index = (ROOT / "docs/README.md").read_text()
    pages = {path.name for path in ROOT.glob("docs/*") if path.name != "README.md"}

    assert pages <= set(re.findall(r"\]\(([^)#\s/]+)", index))


def test_the_changelog_has_this_version() -> None:
    """Its first entry is the version that the package has."""
    changelog = (ROOT / "CHANGELOG.md").read_text()
    newest = re.search(r"^## \[([^]]+)\]", changelog, re.MULTILINE)

    assert newest is not None
    assert newest[1] == __version__
