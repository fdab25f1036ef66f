"""
What a running Envoy follows: listeners (LDS), clusters (CDS), routes (RDS), secrets (SDS).

Theory of operation. A listener that changes costs connections, so nothing of a policy is
in it (see `listener`): a policy changes clusters, routes and secrets, and Envoy goes over
to those without touching a connection. What an exchange was decided by must be there
until it has been carried out, so clusters and routes of earlier policies stay for a while
beside those of the new one. They can't be mixed up: a cluster's name says what it is.

Envoy reads JSON as well as YAML, and JSON is written a hundred times as fast.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from betterproto2 import Casing, Message
from envoy_data_plane.envoy.config.cluster.v3 import Cluster
from envoy_data_plane.envoy.config.listener.v3 import Listener
from envoy_data_plane.envoy.config.route.v3 import RouteConfiguration
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import (
    Rds,
)
from envoy_data_plane.envoy.extensions.transport_sockets.tls.v3 import Secret

from tokenweir.core.policy import Policy
from tokenweir.envoyconf.bootstrap import frame
from tokenweir.envoyconf.certificates import file_of, secrets_of, source
from tokenweir.envoyconf.clusters import processor_cluster, provider_cluster
from tokenweir.envoyconf.filters import ADMISSION_FILTER
from tokenweir.envoyconf.listener import listener
from tokenweir.envoyconf.names import ROUTES_NAME
from tokenweir.envoyconf.routes import route_configuration
from tokenweir.envoyconf.settings import EnvoySettings

Json = dict[str, Any]

BOOTSTRAP: Final = "bootstrap.json"
LISTENERS: Final = "lds.json"
CLUSTERS: Final = "cds.json"
ROUTES: Final = "rds.json"
# Envoy follows nothing without a name.
NODE: Final = {"id": "tokenweir", "cluster": "tokenweir"}
_VERSION_CHARS: Final = 12
_KINDS: Final[Mapping[type[Message], str]] = {
    Cluster: "envoy.config.cluster.v3.Cluster",
    Listener: "envoy.config.listener.v3.Listener",
    RouteConfiguration: "envoy.config.route.v3.RouteConfiguration",
    Secret: "envoy.extensions.transport_sockets.tls.v3.Secret",
}
_SECRET_FILE: Final = re.compile(r"secret-[A-Za-z0-9._-]+\.json")


class XdsRenderer:
    """
    Makes the content of files, for the folder that *settings* name.

    It remembers clusters: Envoy's message types are slow.
    """

    def __init__(self, settings: EnvoySettings) -> None:
        assert settings.xds_dir is not None
        self.settings = settings
        self._folder = settings.xds_dir
        self._clusters: dict[str, Json] = {}
        self._listener: Json | None = None

    def bootstrap(self) -> Json:
        """Return what Envoy is started with: where everything else is."""
        started: Json = frame(self.settings)
        where = {
            name: source(self._folder, file).to_dict(casing=Casing.SNAKE)
            for name, file in (("lds_config", LISTENERS), ("cds_config", CLUSTERS))
        }
        processor = processor_cluster(self.settings).to_dict(casing=Casing.SNAKE)
        return {
            "node": NODE,
            "dynamic_resources": where,
            "static_resources": {"clusters": [processor]},
            **started,
        }

    def listeners(self) -> Json:
        """Return the listener, which finds its routes in a file."""
        found = Rds(
            route_config_name=ROUTES_NAME, config_source=source(self._folder, ROUTES)
        )
        return plain([_resource(listener(self.settings, found))])

    def clusters(self, policy: Policy) -> dict[str, Json]:
        """Return the providers' clusters, by name."""
        known = self._clusters
        self._clusters = {}
        for provider in policy.providers.values():
            name = provider.cluster
            made = known.get(name) or _resource(
                provider_cluster(provider, self.settings)
            )
            self._clusters[name] = made
        return dict(self._clusters)

    def routes(self, policy: Policy) -> Json:
        """Return the routes to the providers' clusters."""
        return _resource(route_configuration(policy, self.settings))

    def secrets(self, policy: Policy) -> dict[str, Json]:
        """Return the secrets, by name of the file. Raises: OSError."""
        return {
            file_of(secret.name): plain([_resource(secret)])
            for secret in secrets_of(policy, self.settings)
        }

    def standing_alone(self, policy: Policy) -> Json:
        """
        Return all of it in one, as Envoy can be asked whether it would do.

        The files of secrets must be there by then.
        """
        if self._listener is None:
            self._listener = dict(self.listeners()["resources"][0])
            self._listener.pop("@type")
        made = json.loads(json.dumps(self._listener))
        manager = made["filter_chains"][0]["filters"][0]["typed_config"]
        del manager["rds"]
        manager["route_config"] = _untyped(self.routes(policy))
        clusters = [_untyped(each) for each in self.clusters(policy).values()]
        processor = processor_cluster(self.settings).to_dict(casing=Casing.SNAKE)
        return {
            "node": NODE,
            **frame(self.settings),
            "static_resources": {
                "listeners": [made],
                "clusters": [*clusters, processor],
            },
        }


def key_of(policy: Policy, settings: EnvoySettings) -> str:
    """Return what tells apart whatever of *policy* Envoy has to know."""
    files = [provider.files_digest for provider in policy.providers.values()]
    return _digest([dict(policy.rendering), files, repr(settings)])


def plain(resources: Sequence[Json]) -> Json:
    """Return the file of *resources*; the version tells what is in it."""
    return {"version_info": _digest(resources), "resources": list(resources)}


def versioned(resource: Json, key: str) -> Json:
    """Return the file of *resource*; the version tells *key* too."""
    return {"version_info": f"{key}-{_digest([resource])}", "resources": [resource]}


def encoded(content: Json) -> bytes:
    """Return *content* as it is written."""
    return json.dumps(content, separators=(",", ":")).encode()


def cluster_names(routes: Json) -> set[str]:
    """Return the clusters that *routes* lead to."""
    return {each["route"]["cluster"] for each in _to_providers(routes)}


def merged_routes(routes: Json, earlier: Json | None, names: Iterable[str]) -> Json:
    """
    Return *routes* with those of *earlier* that lead to the clusters *names*.

    Whoever is told what the routes were made from is told of these as well.
    """
    kept = set(names) - cluster_names(routes)
    if earlier is None or not kept:
        return routes
    more = [each for each in _to_providers(earlier) if each["route"]["cluster"] in kept]
    copy: Json = json.loads(json.dumps(routes))
    host = copy["virtual_hosts"][0]
    # Before the last one, which takes what no other has taken.
    host["routes"][-1:-1] = more
    told = _told(host)
    found = {each["route"]["cluster"].rpartition("-")[2] for each in more}
    told["value"] = ",".join([told["value"], *sorted(found)])
    return copy


def without_routes(routes: Json, names: Collection[str]) -> Json:
    """Return *routes* without those to the clusters *names*, and without a word of it."""
    copy: Json = json.loads(json.dumps(routes))
    host = copy["virtual_hosts"][0]
    gone = cluster_names(routes) & set(names)
    host["routes"] = [
        each
        for each in host["routes"]
        if each.get("route", {}).get("cluster") not in gone
    ]
    told = _told(host)
    digests = {name.rpartition("-")[2] for name in gone}
    told["value"] = ",".join(
        each for each in told["value"].split(",") if each not in digests
    )
    return copy


def secrets_in(clusters: Sequence[Json]) -> set[str]:
    """Return the names of the files of secrets that *clusters* refer to."""
    return set(_SECRET_FILE.findall(json.dumps(clusters)))


def _told(host: Json) -> Json:
    """Return where it is told what routes were made from."""
    filters = host["typed_per_filter_config"][ADMISSION_FILTER]
    [told] = filters["overrides"]["grpc_initial_metadata"]
    found: Json = told
    return found


def _to_providers(routes: Mapping[str, Any]) -> list[Json]:
    found = routes["virtual_hosts"][0]["routes"]
    return [each for each in found if "cluster" in each.get("route", {})]


def _untyped(resource: Json) -> Json:
    return {name: value for name, value in resource.items() if name != "@type"}


def _resource(message: Message) -> Json:
    # As packing would have it, which takes twice as long: bytes are made and read again.
    kind = f"type.googleapis.com/{_KINDS[type(message)]}"
    return {"@type": kind, **message.to_dict(casing=Casing.SNAKE)}


def _digest(content: object) -> str:
    text = json.dumps(content, sort_keys=True).encode()
    return hashlib.sha256(text).hexdigest()[:_VERSION_CHARS]
