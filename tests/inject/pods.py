"""Pods of all kinds, for properties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tokenweir.inject import names
from tokenweir.inject.settings import KeyIn, Mode, Settings
from tokenweir.inject.variables import APIS

Pod = dict[str, Any]

VARIABLES = sorted(
    {name for api in APIS.values() for name in (*api.names, *api.instead)}
)
_WORDS = st.sampled_from(["app", "worker", "web", "log", "vault-agent", "init-db"])


def small_pod(**spec: Any) -> Pod:
    """Return a pod of one container; *spec* replaces members of it."""
    content: dict[str, Any] = {"containers": [{"name": "app", "image": "app:1"}]}
    return {"metadata": {"name": "web-0"}, "spec": content | spec}


def marked(pod: Pod, **said: str) -> Pod:
    """Return *pod* with annotations of ours; ``_`` stands for ``-``."""
    annotations = {
        f"{names.DOMAIN}/{name.replace('_', '-')}": value
        for name, value in said.items()
    }
    return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}}


def _entries() -> st.SearchStrategy[list[Pod]]:
    """Return lists of variables, ours and others."""
    name = st.sampled_from([*VARIABLES, "PATH", "LOG_LEVEL"])
    value = st.sampled_from(["", "x", "http://gateway:8080/v1"])
    entry = st.builds(lambda n, v: {"name": n, "value": v}, name, value)
    return st.lists(entry, min_size=1, max_size=4, unique_by=lambda e: e["name"])


def _container(name: str) -> st.SearchStrategy[Pod]:
    optional: dict[str, st.SearchStrategy[Any]] = {
        "env": _entries(),
        "envFrom": st.just([{"secretRef": {"name": "all"}}]),
        "ports": st.just([{"containerPort": 8080}]),
        "command": st.just(["run", "--fast"]),
        "volumeMounts": st.just([{"name": "data", "mountPath": "/data"}]),
        "resources": st.just({"limits": {"cpu": "1"}}),
    }
    required = {"name": st.just(name), "image": st.sampled_from(["app", "app:1"])}
    return st.fixed_dictionaries(required, optional=optional)


def _named(words: list[str]) -> st.SearchStrategy[list[Pod]]:
    return st.tuples(*map(_container, words)).map(list)


@st.composite
def pods(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Pod:
    """Draw pods that can have sidecars, and have none."""
    words = draw(st.lists(_WORDS, min_size=1, max_size=5, unique=True))
    mesh = draw(st.lists(st.sampled_from(sorted(names.MESH_CONTAINERS)), unique=True))
    cut = draw(st.integers(0, len(words) - 1))
    init = draw(st.permutations([*words[:cut], *mesh[:2]]))
    spec: Pod = {"containers": draw(_named([*words[cut:], *mesh[2:]]))}
    if init:
        spec["initContainers"] = draw(_named(list(init)))
    if draw(st.booleans()):
        spec["volumes"] = [{"name": "data", "emptyDir": {}}]
    if draw(st.booleans()):
        spec["terminationGracePeriodSeconds"] = draw(st.integers(0, 600))
    metadata: Pod = {"name": "web-0"}
    if draw(st.booleans()):
        metadata["labels"] = {"app": "web"}
    if draw(st.booleans()):
        metadata["annotations"] = {"example.com/team": "search"}
    return {"metadata": metadata, "spec": spec}


def settings() -> st.SearchStrategy[Settings]:
    """Draw settings of clusters."""
    made = st.builds(
        Settings,
        mode=st.sampled_from(Mode),
        policy=st.sampled_from([None, KeyIn("policy", "policy.yaml")]),
        governance_key=st.sampled_from(["", "ed25519:AAAA"]),
        tenant=st.sampled_from(["", "acme"]),
        credentials=st.sampled_from(["", "credentials"]),
        certificates=st.sampled_from(["", "certificates"]),
        api_key=st.sampled_from([None, KeyIn("keys", "app")]),
        containers=st.sampled_from([(), ("app",), ("app", "worker")]),
        apis=st.sampled_from([tuple(APIS), ("openai",)]),
        guarded=st.sampled_from([(), ("api.openai.com",)]),
        port=st.sampled_from([4000, 4100]),
    )
    return made.filter(lambda s: s.policy is not None or s.governance_key != "")
