"""
The whole of Envoy's configuration, as a dict and as YAML.

Envoy's message types take half a second to import, so import this module only when
something is to be rendered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import yaml
from betterproto2 import Casing
from envoy_data_plane.envoy.config.bootstrap.v3 import (
    Admin,
    Bootstrap,
    BootstrapStaticResources,
)
from envoy_data_plane.envoy.config.overload.v3 import OverloadManager, ResourceMonitor
from envoy_data_plane.envoy.extensions.resource_monitors.downstream_connections.v3 import (
    DownstreamConnectionsConfig,
)
from envoy_data_plane.google.protobuf import Any

from tokenweir.core.errors import PolicyError
from tokenweir.core.policy import Policy
from tokenweir.envoyconf.addresses import unix
from tokenweir.envoyconf.clusters import clusters
from tokenweir.envoyconf.listener import listener
from tokenweir.envoyconf.names import PROCESSOR_CLUSTER
from tokenweir.envoyconf.routes import route_configuration
from tokenweir.envoyconf.settings import EnvoySettings

CONNECTIONS_MONITOR: Final = "envoy.resource_monitors.global_downstream_max_connections"


def render(policy: Policy, settings: EnvoySettings) -> dict[str, object]:
    """
    Return the bootstrap configuration of an Envoy that serves *policy*.

    It holds no secret: credentials go by the processor, with each request.
    Raises: PolicyError if Envoy could not tell two of its clusters apart.
    """
    if PROCESSOR_CLUSTER in policy.providers:
        raise PolicyError([f"providers.{PROCESSOR_CLUSTER}: the name is taken"])
    resources = BootstrapStaticResources(
        listeners=[listener(settings, route_configuration(policy, settings))],
        clusters=clusters(policy, settings),
    )
    static = {"static_resources": resources.to_dict(casing=Casing.SNAKE)}
    return static | frame(settings)


def frame(settings: EnvoySettings) -> dict[str, object]:
    """Return the part of a bootstrap configuration that is about Envoy itself."""
    bootstrap = Bootstrap(overload_manager=_connection_limit(settings))
    if settings.admin_socket is not None:
        bootstrap.admin = Admin(address=unix(settings.admin_socket))
    framed: dict[str, object] = bootstrap.to_dict(casing=Casing.SNAKE)
    return framed


def to_yaml(bootstrap: Mapping[str, object]) -> str:
    """Return *bootstrap* as YAML that people can read."""
    return yaml.dump(
        dict(bootstrap), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=88
    )


def _connection_limit(settings: EnvoySettings) -> OverloadManager:
    limit = DownstreamConnectionsConfig(
        max_active_downstream_connections=settings.max_connections
    )
    monitor = ResourceMonitor(name=CONNECTIONS_MONITOR, typed_config=Any.pack(limit))
    return OverloadManager(resource_monitors=[monitor])


class _Dumper(yaml.SafeDumper):
    """Writes scripts as blocks, and every value where it stands."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        """Say no to anchors."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
