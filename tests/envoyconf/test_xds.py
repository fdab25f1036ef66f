"""What Envoy follows, by file."""

import json
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from envoy_data_plane.google.protobuf import Any as Packed

from tests.envoyconf.certificates import Authority
from tests.envoyconf.gateway import policy_of, provider
from tokenweir.core.policy import Policy, Secret
from tokenweir.envoyconf import xds
from tokenweir.envoyconf.settings import EnvoySettings
from tokenweir.envoyconf.validate import problem_of
from tokenweir.envoyconf.xds import XdsRenderer

A, B = provider("a", 1), provider("b", 2)
MOVED = replace(A, port=3)


def renderer_of(folder: Path, **settings: Any) -> XdsRenderer:
    """Return what renders for an Envoy that follows *folder*."""
    admin = str(folder / "admin")
    return XdsRenderer(
        EnvoySettings(xds_dir=str(folder), admin_socket=admin, **settings)
    )


def told_in(routes: xds.Json) -> set[str]:
    """Return what is said to be known of a policy."""
    [host] = routes["virtual_hosts"]
    overrides = host["typed_per_filter_config"]["tokenweir.admission"]["overrides"]
    return set(overrides["grpc_initial_metadata"][0]["value"].split(","))


def test_a_listener_knows_no_policy(tmp_path: Path) -> None:
    """Listener and bootstrap are rendered without one, and say where the rest is."""
    renderer = renderer_of(tmp_path)
    [listener] = renderer.listeners()["resources"]
    bootstrap = renderer.bootstrap()

    assert listener["@type"].endswith(".Listener")
    assert f'"{tmp_path}/rds.json"' in json.dumps(listener)
    assert f'"{tmp_path}/cds.json"' in json.dumps(bootstrap["dynamic_resources"])
    assert f'"{tmp_path}/lds.json"' in json.dumps(bootstrap["dynamic_resources"])
    [processor] = bootstrap["static_resources"]["clusters"]
    assert processor["name"] == "tokenweir-processor"
    assert bootstrap["admin"]["address"]["pipe"]["path"] == f"{tmp_path}/admin"


def test_envoy_takes_it(tmp_path: Path) -> None:
    """All of it in one file, for providers of every kind, is one that Envoy takes."""
    authority = Authority.create(tmp_path)
    system = ssl.get_default_verify_paths().cafile or ""
    if not Path(system).is_file():
        pytest.skip("this machine has no bundle of authorities")
    own = authority.client_files("us")
    secure = provider("tls", 443, "localhost", scheme="https")
    policy = policy_of(
        A,
        secure,
        replace(secure, name="own", ca_file=str(authority.file), **own),
    )
    renderer = renderer_of(tmp_path, ca_file=system)
    for name, content in renderer.secrets(policy).items():
        (tmp_path / name).write_bytes(xds.encoded(content))

    assert problem_of(renderer.standing_alone(policy)) is None
    assert problem_of(renderer.standing_alone(policy_of(B))) is None


def test_kinds() -> None:
    """What resources are is said as Envoy's own packing says it."""
    for message, name in xds._KINDS.items():
        assert Packed.pack(message()).type_url == f"type.googleapis.com/{name}"


def test_clusters_are_remembered(tmp_path: Path) -> None:
    """A provider that stays is not made anew, one that has gone is forgotten."""
    renderer = renderer_of(tmp_path)
    first = renderer.clusters(policy_of(A, B))
    second = renderer.clusters(policy_of(A))

    assert list(first) == [A.cluster, B.cluster]
    assert list(second) == [A.cluster]
    assert second[A.cluster] is first[A.cluster]


@pytest.mark.parametrize(
    ("policy", "same"),
    [
        (policy_of(A), True),
        (policy_of(A, keys={}, digest="f" * 12), True),
        (policy_of(replace(A, credential=Secret("x"))), True),
        (policy_of(MOVED), False),
        (policy_of(replace(A, files_digest="x")), False),
        (policy_of(A, retries=9), False),
        (policy_of(A, body_limit_bytes=9), False),
    ],
)
def test_what_envoy_has_to_know(policy: Policy, same: bool) -> None:
    """Two policies are the same to Envoy if they differ in nothing of Envoy's."""
    settings = EnvoySettings()
    first = xds.key_of(policy_of(A), settings)

    assert (xds.key_of(policy, settings) == first) is same
    assert xds.key_of(policy_of(A), EnvoySettings(listen_port=1)) != first


def test_earlier_routes(tmp_path: Path) -> None:
    """Routes to clusters that are left stay, if asked for, and it is told of them."""
    renderer = renderer_of(tmp_path)
    old = renderer.routes(policy_of(A, B))
    new = renderer.routes(policy_of(MOVED, B))
    merged = xds.merged_routes(new, old, {A.cluster, B.cluster})
    names = [route["name"] for route in merged["virtual_hosts"][0]["routes"]]

    assert xds.cluster_names(merged) == {A.cluster, MOVED.cluster, B.cluster}
    assert told_in(merged) == told_in(old) | told_in(new)
    assert names[0] == "connect"
    assert names[-1] == "not-admitted"
    assert len(set(names)) == len(names) - 9  # three classes on three paths, twice
    assert xds.merged_routes(new, old, {B.cluster}) == new
    assert xds.merged_routes(new, None, {A.cluster}) == new


def test_fewer_routes(tmp_path: Path) -> None:
    """Routes that go are not spoken of any more; the others stay as they were."""
    renderer = renderer_of(tmp_path)
    old = renderer.routes(policy_of(A, B))
    new = renderer.routes(policy_of(MOVED, B))
    merged = xds.merged_routes(new, old, {A.cluster})

    assert xds.without_routes(merged, {A.cluster, "unknown"}) == new
    assert xds.without_routes(merged, set()) == merged


def test_versions() -> None:
    """A version tells what is in a file, and of routes which policy they are for."""
    one, other = {"name": "a"}, {"name": "b"}
    version = xds.versioned(one, "key")["version_info"]

    assert version.startswith("key-")
    assert xds.versioned(other, "key")["version_info"] != version
    assert xds.plain([one, other]) != xds.plain([other, one])
    assert xds.plain([one])["resources"] == [one]
    assert json.loads(xds.encoded(one)) == one
