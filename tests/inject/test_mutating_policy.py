"""A cluster without a webhook does, by CEL, what `inject` does by default."""

from __future__ import annotations

from tests.inject.kube_schema import check
from tokenweir.inject import names
from tokenweir.inject.cel import literal
from tokenweir.inject.containers import sidecars, volumes
from tokenweir.inject.mutating_policy import mutating_policy
from tokenweir.inject.registration import Registration, selected
from tokenweir.inject.settings import KeyIn, Settings

HERE = Registration()


def expressions(settings: Settings) -> tuple[str, str]:
    """Return the JSON patch and the apply configuration."""
    policy = mutating_policy(HERE, settings)[0]
    patch, applied = policy["spec"]["mutations"]
    return (
        patch["jsonPatch"]["expression"],
        applied["applyConfiguration"]["expression"],
    )


def test_kubernetes_takes_it() -> None:
    """From the version on in which it is stable."""
    for manifest in mutating_policy(HERE, Settings(api_key=KeyIn("k", "key"))):
        check(manifest, 36)


def test_the_same_sidecars() -> None:
    """Containers and volumes are those of `inject`, each added if it is not there."""
    settings = Settings()
    patch, _ = expressions(settings)

    for made in (*sidecars(settings, 30, native=True), *volumes(settings)):
        assert literal(made) in patch
        assert f"e.name == {literal(made['name'])}" in patch
    # Each is put at the front, so that the processor, put last, is first.
    assert patch.index(f'"{names.ENVOY}"') < patch.index(f'"{names.PROCESSOR}"')


def test_the_same_variables() -> None:
    """Where they are not set, in apps and in init containers; not in a mesh's."""
    _, applied = expressions(Settings(containers=("app",)))

    for key in ("containers", "initContainers"):
        assert f'Object.spec.{key}.env{{name: "OPENAI_BASE_URL", value: ' in applied
    assert '"istio-proxy"' in applied
    assert 'c.name in ["app"]' in applied
    assert "has(c.envFrom)" in applied
    assert '"ANTHROPIC_AUTH_TOKEN"' in applied
    assert "has(object.spec.initContainers)" in applied


def test_a_key_of_its_own() -> None:
    """It is a reference, and may be set beside whole Secrets."""
    _, applied = expressions(Settings(api_key=KeyIn("mine", "key")))

    assert "has(c.envFrom)" not in applied
    assert (
        "Object.spec.containers.env.valueFrom.secretKeyRef"
        '{name: "mine", key: "key"}' in applied
    )


def test_who_is_meant() -> None:
    """The same pods as a webhook's, less those that could not have sidecars."""
    policy, *bindings = mutating_policy(HERE, Settings())

    assert [each["spec"]["matchResources"] for each in bindings] == list(
        selected(HERE).values()
    )
    conditions = [each["name"] for each in policy["spec"]["matchConditions"]]
    assert conditions == ["no-mirror-pod", "own-network", "no-windows"]
