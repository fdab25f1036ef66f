"""
The processor, which renders a provider called "odd" so that Envoy refuses it.

    python -m tests.e2e.odd_renderer serve …

Run instead of `tokenweir`.
"""

from __future__ import annotations

import sys

from tokenweir.cli.main import main
from tokenweir.core.policy import Policy
from tokenweir.envoyconf.xds import Json, XdsRenderer

_clusters = XdsRenderer.clusters


def _odd(renderer: XdsRenderer, policy: Policy) -> dict[str, Json]:
    made = _clusters(renderer, policy)
    return {
        name: {**each, "connect_timeout": "-1s"} if name.startswith("odd-") else each
        for name, each in made.items()
    }


if __name__ == "__main__":
    setattr(XdsRenderer, "clusters", _odd)  # noqa: B010 - mypy minds a plain one
    sys.exit(main())
