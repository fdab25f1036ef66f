"""Addresses as Envoy writes them."""

import pytest

from tokenweir.envoyconf.addresses import endpoints, is_ip_address, tcp, unix


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("api.openai.com", False),
        ("1.2.3", False),
        ("localhost", False),
        ("", False),
    ],
)
def test_is_ip_address(host: str, expected: bool) -> None:
    """Names and addresses are told apart."""
    assert is_ip_address(host) is expected


def test_endpoints() -> None:
    """A cluster's endpoints are equal, and of either kind."""
    found = endpoints("c", [tcp("h", 1), unix("/s")])

    assert found.cluster_name == "c"
    [group] = found.endpoints
    first, second = (host.endpoint for host in group.lb_endpoints)
    assert first is not None
    assert first.address == tcp("h", 1)
    assert second is not None
    assert second.address == unix("/s")
