"""Sidecars are put in once, and taken out without a trace."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.inject.api_server import defaulted
from tests.inject.pods import marked, pods, small_pod
from tests.inject.pods import settings as any_settings
from tokenweir.inject import names
from tokenweir.inject.obstacles import Refusal, Skip
from tokenweir.inject.pod import Outcome, Pod, annotate_skipped, inject, uninject
from tokenweir.inject.settings import KeyIn, Mode, Settings
from tokenweir.inject.status import status_of

MANY = settings(max_examples=25)


def injected(pod: Pod, defaults: Settings | None = None) -> Pod:
    """Return *pod* with sidecars, which it must get."""
    outcome = inject(pod, defaults or Settings())
    assert outcome.obstacle is None
    return outcome.pod


def listed(pod: Pod, key: str) -> list[str]:
    """Return the names in one of the lists of *pod*."""
    return [entry["name"] for entry in pod["spec"].get(key, ())]


def variables(pod: Pod, container: str) -> dict[str, Any]:
    """Return the variables of *container*."""
    both = (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])
    found = next(each for each in both if each["name"] == container)
    return {entry["name"]: entry.get("value") for entry in found.get("env", ())}


# === laws =====================================================================


@MANY
@given(pods(), any_settings())
def test_twice_is_once(pod: Pod, given_settings: Settings) -> None:
    """What has its sidecars stays the very same."""
    once = injected(pod, given_settings)
    again = inject(once, given_settings)

    assert again.pod is once
    assert again.obstacle is not None
    assert again.obstacle.reason is Skip.ALREADY_INJECTED


@MANY
@given(pods(), any_settings())
def test_there_and_back(pod: Pod, given_settings: Settings) -> None:
    """Taking them out leaves the pod that there was."""
    assert uninject(injected(pod, given_settings)) == pod


@MANY
@given(pods(), any_settings())
def test_a_pod_with_defaults_is_no_other(pod: Pod, given_settings: Settings) -> None:
    """What an API server fills in changes nothing."""
    stored = defaulted(injected(pod, given_settings))

    assert inject(stored, given_settings).pod is stored


@MANY
@given(pods(), any_settings(), any_settings())
def test_other_settings_leave_it_alone(
    pod: Pod, first: Settings, second: Settings
) -> None:
    """Sidecars and variables that are there stay, whoever made them with what."""
    once = injected(pod, first)
    again = inject(once, second).pod

    for key in ("initContainers", "containers"):
        for before, after in zip(
            once["spec"].get(key, ()), again["spec"].get(key, ()), strict=True
        ):
            had = before.get("env", [])
            assert {**before, "env": []} == {**after, "env": []}
            assert after.get("env", [])[: len(had)] == had
    assert uninject(again) == pod


@MANY
@given(pods(), any_settings())
def test_others_keep_every_field(pod: Pod, given_settings: Settings) -> None:
    """But for variables at the end of their list, other containers are the same."""
    before = copy.deepcopy(pod)
    after = injected(pod, given_settings)

    assert pod == before
    for key in ("initContainers", "containers"):
        others = [
            each
            for each in after["spec"].get(key, ())
            if each["name"] not in names.OURS
        ]
        for old, new in zip(pod["spec"].get(key, ()), others, strict=True):
            had = old.get("env", [])
            assert new.get("env", [])[: len(had)] == had
            assert {**old, "env": []} == {**new, "env": []}


@MANY
@given(pods(), any_settings(), st.sampled_from(["late", "sidecar"]))
def test_reinvocation(pod: Pod, given_settings: Settings, added: str) -> None:
    """A container that another webhook adds is told too; then it is enough."""
    stored = defaulted(injected(pod, given_settings))
    stored["spec"]["containers"].append({"name": added, "image": "x:1"})
    again = inject(stored, given_settings).pod

    told = not given_settings.containers
    assert ("OPENAI_BASE_URL" in variables(again, added)) is told
    assert inject(again, given_settings).pod is again
    assert added not in listed(uninject(again), "initContainers")


# === what is put where ========================================================


def test_native_sidecars_come_first() -> None:
    """The processor, Envoy, then the pod's own init containers."""
    pod = small_pod(initContainers=[{"name": "migrate", "image": "m"}])
    after = injected(pod)

    assert listed(after, "initContainers") == [*names.CONTAINERS, "migrate"]
    assert listed(after, "containers") == ["app"]
    assert "OPENAI_BASE_URL" in variables(after, "migrate")


def test_native_sidecars_stand_behind_a_mesh() -> None:
    """Before its proxy runs there is no way out."""
    init = [{"name": name, "image": "i"} for name in ("istio-init", "istio-proxy", "x")]
    after = injected(small_pod(initContainers=init))

    assert listed(after, "initContainers") == [
        "istio-init",
        "istio-proxy",
        *names.CONTAINERS,
        "x",
    ]
    assert variables(after, "istio-proxy") == {}
    assert variables(after, "x") != {}


def test_plain_sidecars_come_last() -> None:
    """The app stays the first container; init containers can't call yet."""
    pod = small_pod(initContainers=[{"name": "migrate", "image": "m"}])
    after = injected(pod, Settings(kube_version=(1, 28)))

    assert listed(after, "containers") == ["app", *names.CONTAINERS]
    assert listed(after, "initContainers") == ["migrate"]
    assert variables(after, "migrate") == {}
    status = status_of(after)
    assert status is not None
    assert status.mode == "plain"


def test_a_sidecar_that_was_lost_comes_back_in_its_place() -> None:
    """Each is looked for by its own name."""
    after = injected(small_pod(initContainers=[{"name": "x", "image": "x"}]))
    whole = listed(after, "initContainers")
    for lost in names.CONTAINERS:
        rest = [e for e in after["spec"]["initContainers"] if e["name"] != lost]
        damaged = {**after, "spec": {**after["spec"], "initContainers": rest}}

        assert listed(injected(damaged), "initContainers") == whole


def test_variables_that_are_there_stay() -> None:
    """What an app says itself is not changed, and the status tells."""
    own = [{"name": "OPENAI_BASE_URL", "value": "http://gateway/v1"}]
    pod = small_pod(containers=[{"name": "app", "image": "a", "env": own}])
    after = injected(pod)

    assert variables(after, "app")["OPENAI_BASE_URL"] == "http://gateway/v1"
    assert variables(after, "app")["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:4000"
    status = status_of(after)
    assert status is not None
    assert status.kept == {"app": ("OPENAI_BASE_URL",)}
    assert "OPENAI_BASE_URL" not in status.variables["app"]


def test_grace() -> None:
    """The processor drains as long as the pod has, less what leaving takes."""
    for grace, drain in ((None, "25"), (120, "115"), (0, "1")):
        spec = {} if grace is None else {"terminationGracePeriodSeconds": grace}
        command = injected(small_pod(**spec))["spec"]["initContainers"][0]["command"]

        assert command[command.index("--drain-seconds") + 1] == drain


def test_only_what_is_mounted_is_a_volume() -> None:
    """A sidecar that is there mounts what it was made with, so nothing is added."""
    published = Settings(policy=None, governance_key="k", credentials="")
    once = injected(small_pod(), published)
    again = inject(once, Settings(certificates="pair"))

    assert again.pod is once
    assert listed(once, "volumes") == [
        "tokenweir-run",
        "tokenweir-tmp",
        "tokenweir-ledger",
    ]


def test_annotations_are_for_one_pod() -> None:
    """They win over defaults."""
    pod = marked(small_pod(), port="4100", policy="ledger", mode="plain")
    after = injected(pod, Settings(governance_key="ed25519:AAAA"))

    assert listed(after, "containers") == ["app", *names.CONTAINERS]
    assert variables(after, "app")["OPENAI_BASE_URL"] == "http://127.0.0.1:4100/v1"
    assert "tokenweir-policy" not in listed(after, "volumes")


# === what is not ==============================================================


def refused(pod: Pod, defaults: Settings | None = None) -> Outcome:
    """Return what becomes of a *pod* that gets none."""
    outcome = inject(pod, defaults or Settings())
    assert outcome.pod is pod
    assert outcome.obstacle is not None
    return outcome


def test_a_slip_in_an_annotation() -> None:
    """All that is wrong is told, each by its annotation."""
    found = refused(marked(small_pod(), port="http", polcy="ledger")).obstacle

    assert found is not None
    assert found.reason is Refusal.BAD_OPTION
    assert "tokenweir.io/port: must be a TCP port" in found.text
    assert "tokenweir.io/polcy: there is no such option" in found.text


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        ({"spec": {}}, Refusal.MALFORMED),
        (small_pod(hostNetwork=True), Refusal.HOST_NETWORK),
        (marked(small_pod(), inject="false"), Refusal.BAD_OPTION),
        (marked(small_pod(), policy="ledger"), Refusal.BAD_OPTION),
    ],
)
def test_why_not(pod: Pod, reason: Refusal) -> None:
    """The pod is the same, and the reason has a name."""
    outcome = refused(pod)

    assert outcome.obstacle is not None
    assert outcome.obstacle.reason is reason


def test_opted_out_pods_are_not_even_read() -> None:
    """A label is enough, whatever else is wrong with it."""
    pod = marked(small_pod(), port="http")
    pod["metadata"]["labels"] = {names.INJECT_LABEL: "false"}
    outcome = refused(pod)

    assert outcome.obstacle is not None
    assert outcome.obstacle.reason is Skip.OPTED_OUT


def test_a_job_in_an_old_cluster() -> None:
    """Plain sidecars would keep it from ending; one that has native ones is fine."""
    job = small_pod(restartPolicy="Never")
    old = Settings(mode=Mode.PLAIN)
    outcome = refused(job, old)

    assert outcome.obstacle is not None
    assert outcome.obstacle.reason is Refusal.NEVER_ENDS
    assert (
        inject(injected(job), old).obstacle
        == inject(injected(job), Settings()).obstacle
    )


# === and back =================================================================


def test_a_skipped_pod_says_why() -> None:
    """The reason is in its status, and goes with it."""
    pod = small_pod(hostNetwork=True)
    after = annotate_skipped(pod, Refusal.HOST_NETWORK)
    status = status_of(after)

    assert status is not None
    assert (status.skipped, status.mode) == ("host_network", "")
    assert uninject(after) == pod
    assert "annotations" not in pod["metadata"]


def test_a_status_of_a_skip_gives_way() -> None:
    """A pod that can have sidecars after all gets them, and says so."""
    once = annotate_skipped(small_pod(), Refusal.HOST_NETWORK)
    status = status_of(injected(once))

    assert status is not None
    assert (status.skipped, status.mode) == ("", "native")


def test_nothing_to_take_out() -> None:
    """A pod of others is the very same."""
    pod = small_pod(initContainers=[], volumes=[{"name": "data", "emptyDir": {}}])

    assert uninject(pod) is pod


def test_a_template_without_metadata() -> None:
    """It gets some, and is left without."""
    pod = {"spec": small_pod()["spec"]}

    assert uninject(injected(pod)) == pod


def test_without_a_status() -> None:
    """Containers and volumes are known by name, even if somebody removed the rest."""
    after = injected(small_pod(), Settings(api_key=KeyIn("k", "key")))
    del after["metadata"]["annotations"]
    before = uninject(after)

    assert "initContainers" not in before["spec"]
    assert "volumes" not in before["spec"]
    assert "labels" not in before["metadata"]
