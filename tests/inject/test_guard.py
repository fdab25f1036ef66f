"""Rules that let nobody call a provider but through Envoy."""

from __future__ import annotations

import pytest

from tests.inject.pods import small_pod
from tokenweir.cli.main import _parser
from tokenweir.inject import names
from tokenweir.inject.guard import guard, guarded_hosts, rules
from tokenweir.inject.pod import inject, uninject
from tokenweir.inject.settings import Settings
from tokenweir.inject.status import status_of

GUARDED = Settings(guarded=("api.openai.com", "vllm.shop:8000"))
FOUND = {"api.openai.com": ["192.0.2.1"], "vllm.shop:8000": ["10.0.0.5", "10.0.0.6"]}


def lines(*, ipv6: bool = False) -> list[str]:
    """Return the rules for what was found."""
    return rules(FOUND, 4000, 65417, ipv6=ipv6).splitlines()


def test_hosts() -> None:
    """They are names, with a port where they speak plain HTTP."""
    assert guarded_hosts(" API.openai.com, vllm.shop:8000,") == (
        "api.openai.com",
        "vllm.shop:8000",
    )
    assert guarded_hosts("") == ()


@pytest.mark.parametrize("text", ["a b", "https://a", "a:0", "a:99999", 'a" -j ACCEPT'])
def test_what_is_no_host(text: str) -> None:
    """Nothing gets into a rule that is no name."""
    with pytest.raises(ValueError, match="must be names"):
        guarded_hosts(text)


def test_ours_may_pass() -> None:
    """In both tables that is the first rule."""
    passing = "-A TOKENWEIR -m owner --gid-owner 65417 -j RETURN"
    found = lines()

    for table in ("*nat", "*filter"):
        start = found.index(table)
        assert found[start + 1 : start + 4] == [
            ":TOKENWEIR - [0:0]",
            "-I OUTPUT -j TOKENWEIR",
            passing,
        ]


def test_plain_http_goes_to_envoy() -> None:
    """To each address of a host, on its port, or 80."""
    redirected = [line for line in lines() if "REDIRECT" in line]

    assert redirected == [
        f"-A TOKENWEIR -d {address} -p tcp -m tcp --dport {port} "
        "-j REDIRECT --to-ports 4000"
        for address, port in (("192.0.2.1", 80), ("10.0.0.5", 8000), ("10.0.0.6", 8000))
    ]
    assert lines().index("COMMIT") > lines().index(redirected[-1])


def test_tls_is_refused_by_name() -> None:
    """Not by address, which others share; and QUIC, where no name is seen."""
    refused = [line for line in lines() if "REJECT" in line]

    assert len(refused) == 2
    assert (
        '--dport 443 -m string --algo bm --icase --string "api.openai.com"'
        in refused[0]
    )
    assert refused[1] == "-A TOKENWEIR -p udp -m udp --dport 443 -j REJECT"


def test_ipv6() -> None:
    """Envoy does not listen there, so plain HTTP is refused."""
    found = lines(ipv6=True)

    assert not any("REDIRECT" in line for line in found)
    assert sum("--reject-with tcp-reset" in line for line in found) == 4


def test_only_plain_hosts() -> None:
    """Who guards no TLS loses no QUIC."""
    assert "udp" not in rules({"vllm:80": ["10.0.0.5"]}, 4000, 1, ipv6=False)


def test_it_is_before_all_others() -> None:
    """Nothing runs before the rules are there; our group is one of its own then."""
    pod = small_pod(initContainers=[{"name": "x", "image": "x"}])
    after = inject(pod, GUARDED).pod
    init = after["spec"]["initContainers"]

    assert [each["name"] for each in init] == [names.GUARD, *names.CONTAINERS, "x"]
    for container in init[1:3]:
        assert container["securityContext"]["runAsGroup"] == names.GUARD_GROUP
        assert container["securityContext"]["runAsUser"] == 65532
    status = status_of(after)
    assert status is not None
    assert set(status.containers) == set(names.OURS)
    assert uninject(after) == pod


def test_not_later() -> None:
    """Sidecars that were made without it would be stopped by it themselves."""
    once = inject(small_pod(), Settings()).pod

    assert inject(once, GUARDED).pod is once


def test_what_it_may() -> None:
    """The network's rules, and nothing else of what root may."""
    context = guard(GUARDED)["securityContext"]

    assert context["capabilities"] == {"add": ["NET_ADMIN"], "drop": ["ALL"]}
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is context["privileged"] is False


def test_the_command_takes_it() -> None:
    """What is rendered is what `tokenweir guard` reads."""
    container = guard(Settings(guarded=GUARDED.guarded, image_pull_policy="Always"))
    args = _parser().parse_args(container["command"][1:])

    assert (args.port, args.group) == (4000, names.GUARD_GROUP)
    assert tuple(args.hosts) == GUARDED.guarded
    assert container["imagePullPolicy"] == "Always"
