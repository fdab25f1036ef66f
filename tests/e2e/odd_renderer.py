"""
The processor, which renders a provider called "odd" so that Envoy refuses it.

    python -m tests.e2e.odd_renderer serve …

Run instead of `tokenweir`. Its Envoy is patient: tests share their machine, and a
processor that gets no time for two seconds would be said to give no answer.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial

from tokenweir.cli import envoy_options, serve
from tokenweir.cli.main import main
from tokenweir.core.policy import Policy
from tokenweir.driver.services import Services
from tokenweir.envoyconf.settings import EnvoySettings
from tokenweir.envoyconf.xds import Json, XdsRenderer
from tokenweir.processor import processor

PATIENCE_MS = 20_000
# More for ``tokenweir serve``, for the same reason.
ARGUMENTS = ("--ledger-timeout-ms", "10000")

_clusters = XdsRenderer.clusters


def _odd(renderer: XdsRenderer, policy: Policy) -> dict[str, Json]:
    made = _clusters(renderer, policy)
    return {
        name: {**each, "connect_timeout": "-1s"} if name.startswith("odd-") else each
        for name, each in made.items()
    }


def _patient(args: argparse.Namespace) -> EnvoySettings | None:
    settings = envoy_options.envoy_settings(args)
    assert settings is not None
    return replace(
        settings,
        admission_timeout_ms=PATIENCE_MS,
        response_timeout_ms=PATIENCE_MS,
        connect_timeout_ms=PATIENCE_MS,
    )


if __name__ == "__main__":
    setattr(XdsRenderer, "clusters", _odd)  # noqa: B010 - mypy minds a plain one
    patient = partial(Services, admission_seconds=PATIENCE_MS / 2_000)
    assert vars(processor)["Services"] is Services  # or nothing is replaced
    setattr(processor, "Services", patient)  # noqa: B010
    setattr(serve, "envoy_settings", _patient)  # noqa: B010
    sys.exit(main())
