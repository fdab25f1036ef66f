"""A patch is small, and what comes of it is what was meant."""

from __future__ import annotations

from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.inject.pods import pods, small_pod
from tests.inject.pods import settings as any_settings
from tokenweir.inject.json_patch import patch
from tokenweir.inject.pod import inject
from tokenweir.inject.settings import Settings

NAMED = st.lists(
    st.builds(
        lambda name, value: {"name": name, "value": value},
        st.sampled_from("abcd"),
        st.integers(0, 1),
    ),
    max_size=4,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "x"]) | NAMED,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "a/b", "~"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def applied(before: Any, operations: list[dict[str, Any]]) -> Any:
    """Return what another library makes of it; of scalars, too."""
    patched = jsonpatch.apply_patch({"root": before}, operations)
    return patched["root"]


@settings(max_examples=100)
@given(JSON, JSON)
def test_it_leads_there(before: Any, after: Any) -> None:
    """Whatever the two are."""
    assert applied(before, list(patch(before, after, "/root"))) == after


@settings(max_examples=20)
@given(pods(), any_settings())
def test_pods(pod: dict[str, Any], given_settings: Settings) -> None:
    """A pod gets its sidecars by additions only."""
    after = inject(pod, given_settings).pod
    operations = list(patch(pod, after))

    assert applied(pod, [_below_root(op) for op in operations]) == after
    assert {op["op"] for op in operations} == {"add"}


def _below_root(operation: dict[str, Any]) -> dict[str, Any]:
    return {**operation, "path": f"/root{operation['path']}"}


def test_nothing_that_moved_is_rewritten() -> None:
    """What stands before others is inserted there."""
    pod = small_pod(initContainers=[{"name": "x", "image": "x"}])
    operations = list(patch(pod, inject(pod, Settings(apis=())).pod))

    assert [op["path"] for op in operations] == [
        "/metadata/annotations",
        "/metadata/labels",
        "/spec/initContainers/0",
        "/spec/initContainers/1",
        "/spec/volumes",
    ]


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {}, ["remove"]),
        ({"a": 1}, {"a": 2}, ["replace"]),
        ([{"name": "a"}], [{"name": "b"}], ["replace"]),
        ([{"name": "a"}], [{"name": "b"}, {"name": "a"}], ["add"]),
        ([{"name": "a"}, {"name": "a"}], [{"name": "a"}], ["replace"]),
        ([1], [1, 2], ["replace"]),
        (None, [], ["replace"]),
    ],
)
def test_kinds(before: Any, after: Any, kinds: list[str]) -> None:
    """Lists that can't be told apart by names are replaced as a whole."""
    assert [operation["op"] for operation in patch(before, after)] == kinds
