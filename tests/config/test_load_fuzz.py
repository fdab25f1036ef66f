"""No file makes loading fail in any other way than it says."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.config.policies import CANARY, ENV, FULL, SMALL, write
from tokenweir.config.load import load_policy
from tokenweir.config.problem import Path
from tokenweir.core.errors import PolicyError


def outcome(path: pathlib.Path) -> tuple[str, ...]:
    """Return the problems of the file *path*; none if it is a policy."""
    try:
        load_policy(path, ENV)
    except PolicyError as error:
        return error.problems or ("nothing was said",)
    return ()


# Words that the schema knows, so that a guess gets past the first check.
WORDS = st.sampled_from(
    sorted({*SMALL.replace("{", " ").replace("}", " ").replace(":", " ").split()})
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    WORDS,
)
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(), inner)
    ),
    max_leaves=12,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.sampled_from(["providers", "models", "tenants", "quotas", "timeouts"]), TREES
    )
)
@example({"tenants": {"[key]": {"[key]": 1}}, "models": {"bad name": {"[key]": 2}}})
def test_any_tree_is_a_policy_or_is_told_why_not(
    tmp_path: pathlib.Path, tree: dict[str, object]
) -> None:
    """Whatever values a file has, nothing but a PolicyError comes of it."""
    text = yaml.safe_dump({**yaml.safe_load(SMALL), **tree}, allow_unicode=True)
    told = outcome(write(tmp_path, text))

    assert all(": " in problem for problem in told)
    assert "".join(told).isprintable()


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(SMALL)), st.integers(0, 20), st.binary(max_size=6))
@example(0, 0, b"\x00")
@example(0, 9, b"&a [*a]")
def test_any_bytes_are_a_policy_or_are_told_why_not(
    tmp_path: pathlib.Path, start: int, length: int, patch: bytes
) -> None:
    """Whatever bytes get into a file, nothing but a PolicyError comes of it."""
    source = SMALL.encode()
    path = tmp_path / "policy.yaml"
    path.write_bytes(source[:start] + patch + source[start + length :])
    told = outcome(path)

    assert "".join(told).isprintable()
    assert CANARY not in "".join(told)


def places(value: object, path: Path = ()) -> Iterator[Path]:
    """Yield the path of everything in *value*."""
    if path:
        yield path
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in pairs:
            yield from places(part, (*path, key))


PLACES = list(places(yaml.safe_load(FULL)))
CHANGES = st.tuples(st.sampled_from(PLACES), st.sampled_from(PLACES), TREES)


def put(content: Any, path: Path, value: object) -> None:
    """Put *value* at *path*, if an earlier change has left a place for it."""
    for part in path[:-1]:
        content = content.get(part) if isinstance(content, dict) else content
        content = content[0] if isinstance(content, list) and content else content
    if isinstance(content, dict):
        content[path[-1]] = value
    elif isinstance(content, list):
        content.append(value)


def changed(changes: list[tuple[Path, Path, object]]) -> str:
    """Return the full policy with values changed, and some under another's name."""
    content = yaml.safe_load(FULL)
    for path, other, value in changes:
        put(content, path, value)
        put(content, (*path[:-1], other[-1]), value)
    return str(yaml.safe_dump(content, allow_unicode=True))


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(CHANGES, min_size=1, max_size=4))
def test_any_change_of_a_policy_is_told_or_is_none(
    tmp_path: pathlib.Path, changes: list[tuple[Path, Path, object]]
) -> None:
    """Wherever values are wrong, the rest is still checked, and nothing breaks."""
    told = outcome(write(tmp_path, changed(changes)))

    assert "".join(told).isprintable()
    assert all(": " in problem for problem in told)
