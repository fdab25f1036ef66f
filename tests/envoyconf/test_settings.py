"""Settings are checked before anything is rendered."""

from typing import Any

import pytest

from tokenweir.envoyconf.settings import EnvoySettings


def test_defaults() -> None:
    """By default apps connect on loopback, and nobody can administer Envoy."""
    settings = EnvoySettings()

    assert (settings.listen_host, settings.listen_port) == ("127.0.0.1", 4000)
    assert settings.admin_socket is None
    assert len(settings.processor_sockets) == 1


def test_arguments() -> None:
    """Workers, and an access log that is not minutes late."""
    arguments = EnvoySettings(concurrency=3).arguments

    assert arguments[:3] == ("--concurrency", "3", "--disable-hot-restart")
    assert arguments[3:] == ("--file-flush-interval-msec", "1000")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"listen_port": -1}, "listen_port"),
        ({"listen_port": 65_536}, "listen_port"),
        ({"processor_sockets": ()}, "processor_sockets"),
        ({"processor_sockets": ("/run/a", "/" + "x" * 107)}, "too long"),
        ({"admin_socket": "/" + "ä" * 60}, "too long"),
        *(
            ({name: 0}, f"{name}: must be at least 1")
            for name in (
                "concurrency",
                "admission_timeout_ms",
                "response_timeout_ms",
                "connect_timeout_ms",
                "retry_after_limit_ms",
                "max_connections",
            )
        ),
    ],
)
def test_wrong_values(wrong: dict[str, Any], message: str) -> None:
    """A value that Envoy could not use is refused, by name."""
    with pytest.raises(ValueError, match=message):
        EnvoySettings(**wrong)
