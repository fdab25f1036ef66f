"""Where Envoy listens is an address and a port."""

from argparse import ArgumentTypeError

import pytest

from tokenweir.cli.listen_address import listen_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:4000", ("127.0.0.1", 4000)),
        ("[::1]:0", ("::1", 0)),
        ("::1:65535", ("::1", 65535)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    """Addresses of both kinds are read, with brackets or without."""
    assert listen_address(text) == address


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("localhost:4000", "HOST must be an IP address"),
        ("4000", "HOST must be"),
        ("127.0.0.1:http", "PORT must be a TCP port"),
        ("127.0.0.1:65536", "PORT must be"),
        ("127.0.0.1:", "PORT must be"),
    ],
)
def test_no_addresses(text: str, told: str) -> None:
    """What Envoy could not listen on is refused, and it is said what would do."""
    with pytest.raises(ArgumentTypeError, match=told):
        listen_address(text)
