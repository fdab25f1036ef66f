"""What runs beside an app is what the programs take, and may do little."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tokenweir.cli import envoy_options
from tokenweir.cli.main import _parser
from tokenweir.config.load import TENANT_VARIABLE
from tokenweir.envoyconf.settings import EnvoySettings
from tokenweir.inject import names
from tokenweir.inject.containers import ENVOY_ARGUMENTS, sidecars, volumes
from tokenweir.inject.settings import KeyIn, Resources, Settings

BARE = Settings(policy=None, credentials="")
FULL = Settings(
    governance_key="ed25519:AAAA",
    tenant="acme",
    certificates="pair",
    image="example.test/tokenweir:1",
    image_pull_policy="Always",
)


def made(settings: Settings, *, native: bool = True) -> tuple[Any, Any]:
    """Return both containers."""
    processor, envoy = sidecars(settings, 30, native=native)
    return processor, envoy


def values(container: dict[str, Any]) -> dict[str, Any]:
    """Return the variables of *container*."""
    return {entry["name"]: entry for entry in container.get("env", ())}


@pytest.mark.parametrize("settings", [Settings(), BARE, FULL])
def test_the_processor_can_be_started_so(settings: Settings) -> None:
    """`tokenweir serve` takes the command, once the kubelet has put in the address."""
    processor, _ = made(settings)
    command = [
        part.replace(f"$({names.ADDRESS_VARIABLE})", "fd00::7")
        for part in processor["command"]
    ]
    assert command[0] == "tokenweir"
    args = _parser().parse_args(command[1:])

    assert args.admin == ("fd00::7", 4090)
    assert args.socket == Path("/run/tokenweir/processor.sock")
    assert args.ledger == f"env:{names.LEDGER_VARIABLE}"
    envoy = envoy_options.envoy_settings(args)
    assert envoy is not None
    assert (envoy.listen_host, envoy.listen_port) == ("127.0.0.1", 4000)
    assert envoy.xds_dir == names.XDS_DIR


def test_envoy_is_started_as_ever() -> None:
    """What it gets on its command line is what the rest of the house gives it."""
    _, envoy = made(Settings(log_level="info"))

    assert EnvoySettings().arguments == ENVOY_ARGUMENTS
    assert envoy["command"][:5] == [
        *("envoy", "-c", "/run/tokenweir/xds/bootstrap.json"),
        *("--log-level", "info"),
    ]


def test_where_the_policy_is() -> None:
    """In a ConfigMap that is mounted as a folder, or in the ledger."""
    file, _ = made(Settings(policy=KeyIn("p", "my.yaml")))
    published, _ = made(BARE)

    assert file["command"][3] == "/etc/tokenweir/policy/my.yaml"
    assert published["command"][3] == "ledger"
    mounts = {mount["name"]: mount for mount in file["volumeMounts"]}
    assert mounts[names.POLICY_VOLUME]["mountPath"] == "/etc/tokenweir/policy"
    assert not any("subPath" in mount for mount in file["volumeMounts"])


def test_secrets_are_the_processors() -> None:
    """Envoy has neither the ledger nor a credential, and no text has one."""
    processor, envoy = made(FULL)

    assert processor["envFrom"] == [{"secretRef": {"name": "tokenweir-credentials"}}]
    ledger = values(processor)[names.LEDGER_VARIABLE]["valueFrom"]
    assert ledger == {"secretKeyRef": {"name": "tokenweir-ledger", "key": "url"}}
    assert not {"env", "envFrom"} & envoy.keys()
    assert [mount["name"] for mount in envoy["volumeMounts"]] == [
        *(names.RUN_VOLUME, names.TMP_VOLUME, names.CERTIFICATES_VOLUME)
    ]


def test_what_is_said_of_the_pod() -> None:
    """Public keys and tenant are variables; without them there are none."""
    processor, _ = made(FULL)
    bare, _ = made(Settings())

    assert values(processor)[names.GOVERNANCE_VARIABLE]["value"] == "ed25519:AAAA"
    assert values(processor)[names.TENANT_VARIABLE]["value"] == "acme"
    assert names.TENANT_VARIABLE == TENANT_VARIABLE
    assert "--governance-key" in processor["command"]
    assert "--governance-key" not in bare["command"]
    assert not {names.GOVERNANCE_VARIABLE, names.TENANT_VARIABLE} & values(bare).keys()


@pytest.mark.parametrize("native", [True, False])
def test_they_may_do_little(native: bool) -> None:
    """No root, no writable image, no capability: the strictest profile takes them."""
    for container in made(FULL, native=native):
        context = container["securityContext"]

        assert context["runAsNonRoot"] is context["readOnlyRootFilesystem"] is True
        assert context["runAsUser"] == context["runAsGroup"] == 65532
        assert context["allowPrivilegeEscalation"] is context["privileged"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert (container["image"], container["imagePullPolicy"]) == (
            "example.test/tokenweir:1",
            "Always",
        )


def test_native_ones_have_no_hook() -> None:
    """It would run when the app only begins to end."""
    for container in made(Settings()):
        assert container["restartPolicy"] == "Always"
        assert "lifecycle" not in container
        assert "startupProbe" in container
        assert "readinessProbe" not in container


def test_plain_ones_wait_for_the_app() -> None:
    """Each ends once the app has stopped calling."""
    processor, envoy = made(Settings(admin_port=4444), native=False)
    for container in (processor, envoy):
        assert "restartPolicy" not in container
        hook = container["lifecycle"]["preStop"]["httpGet"]
        assert hook == {"path": "/quiet?seconds=16", "port": 4444}
    # What is left of the pod's thirty seconds, less five to flush and leave.
    assert (
        processor["command"][processor["command"].index("--drain-seconds") + 1] == "9"
    )


def test_a_plain_envoy_waits() -> None:
    """Both start at once, so it starts when what it starts with is there."""
    _, native = made(Settings())
    _, plain = made(Settings(), native=False)
    bootstrap = "/run/tokenweir/xds/bootstrap.json"

    assert plain["command"] == ["tokenweir", "after", bootstrap, *native["command"]]
    args = _parser().parse_args(plain["command"][1:])
    assert (args.program, args.arguments) == ("envoy", native["command"][1:])


def test_a_pod_without_patience() -> None:
    """What there is not, nobody waits for."""
    processor, _ = sidecars(Settings(), 0, native=False)

    assert processor["lifecycle"]["preStop"]["httpGet"]["path"] == "/quiet?seconds=0"
    assert (
        processor["command"][processor["command"].index("--drain-seconds") + 1] == "1"
    )


def test_resources() -> None:
    """What is empty is not said."""
    processor, envoy = made(
        Settings(processor=Resources("1", "2", "", "3Mi"), envoy=Resources())
    )

    assert processor["resources"] == {
        "requests": {"cpu": "1"},
        "limits": {"cpu": "2", "memory": "3Mi"},
    }
    assert envoy["resources"] == {}
    assert "imagePullPolicy" not in envoy


@pytest.mark.parametrize("settings", [Settings(), BARE, FULL])
def test_volumes(settings: Settings) -> None:
    """There is one for each mount, and no other."""
    mounted = {
        mount["name"]
        for container in made(settings)
        for mount in container["volumeMounts"]
    }
    found = [volume["name"] for volume in volumes(settings)]

    assert set(found) == mounted
    assert len(found) == len(mounted)
    assert mounted <= set(names.VOLUMES)
