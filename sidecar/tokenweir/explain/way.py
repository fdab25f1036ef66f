"""
The way of a request that is admitted: Envoy's route, and what holds on it.

It is read from the very answer that Envoy would get, not from the policy once more.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenweir.core.commands import Forward
from tokenweir.core.outgoing import CLUSTER_HEADER, PATH_HEADER, TIMEOUT_HEADER
from tokenweir.core.policy import TimeoutClass
from tokenweir.core.response_path import ResponsePath, route_name
from tokenweir.explain.explanation import Explanation

# What Envoy tries once more: `tokenweir.envoyconf.routes` says it to Envoy.
RETRIED = ("connection failed", "refused stream", "429", "503")
_DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Way:
    """
    Attributes:
        route: Envoy's name for it: the provider and the class of timeouts.
        cluster: Envoy's name for the provider as it is now.
        method: As sent to the provider.
        url: Ditto, without a query: that may hold a key.
        timeouts: How long Envoy waits.
        retries: How often it tries once more, of `RETRIED`.
        is_read: The answer is read; else it passes unread.
        path: By whom.
        set_headers: Names of what is set on the way, ours not.
        removed_headers: Names of what is taken out, as far as the app has sent it.
    """

    route: str
    cluster: str
    method: str
    url: str
    timeouts: TimeoutClass
    retries: int
    is_read: bool
    path: ResponsePath
    set_headers: tuple[str, ...]
    removed_headers: tuple[str, ...]


def way_of(told: Explanation) -> Way | None:
    """Return the way that the request takes; None: it is refused."""
    answer, policy, head = told.answer, told.question.policy, told.question.head
    provider = policy.providers.get(told.subject.provider)
    if not isinstance(answer, Forward) or provider is None:
        return None
    changes = {name: str(value) for name, value in answer.set_headers}
    classes = policy.timeout_classes
    # As in Envoy: of a class that is not there the default holds.
    timeouts = classes.get(changes[TIMEOUT_HEADER], classes[_DEFAULT])
    path = changes.get(":path", head.path).partition("?")[0]
    root = f"{provider.scheme}://{provider.host}:{provider.port}{provider.path_prefix}"
    sent = {name for name, _ in head.headers}
    ours = (CLUSTER_HEADER, TIMEOUT_HEADER, PATH_HEADER, ":path")
    taken = ResponsePath(answer.ticket.hold.subject.path)
    return Way(
        route=route_name(provider.name, timeouts.name, taken),
        cluster=changes[CLUSTER_HEADER],
        method=head.method,
        url=f"{root}{path}",
        timeouts=timeouts,
        retries=policy.retries,
        is_read=bool(answer.ticket.dialect),
        path=taken,
        set_headers=tuple(name for name in changes if name not in ours),
        removed_headers=tuple(n for n in answer.remove_headers if n in sent),
    )
