"""What can be called: services, and health beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from tokenweir.transport.base import Call, Service
from tokenweir.transport.http2.statuses import Status, StatusError

Push = Callable[[bytes], None]
"""Sends a message that answers none."""

HEALTH = "grpc.health.v1.Health"


@dataclass(frozen=True, slots=True)
class Method:
    """
    One of them.

    Attributes:
        name: See `Service`.
        refusal: See `Service`.
        last_word: See `Service`.
        open: As `Service.open`; a call may keep the `Push`, and use it until it is
            closed.
        stays: Whether a call goes on once the peer has said all: only the server
            streams.
    """

    name: str
    refusal: str
    last_word: bytes | None
    open: Callable[[Mapping[str, str], Push], Call | None]
    stays: bool = False


def methods(services: Sequence[Service], health: Health) -> dict[str, Method]:
    """Return what can be called by which path."""
    found = {service.path: _method(service) for service in services}
    found[f"/{HEALTH}/Check"] = _health_method(health, _Check)
    found[f"/{HEALTH}/Watch"] = _health_method(health, _Watch, stays=True)
    return found


def _method(service: Service) -> Method:
    def opened(metadata: Mapping[str, str], _: Push) -> Call | None:
        return service.open(metadata)

    return Method(service.name, service.refusal, service.last_word, opened)


class Health:
    """
    Whether new streams are welcome; tells those who watch.

    Attributes:
        watchers: Are called at each change.
    """

    def __init__(self) -> None:
        self.watchers: set[Callable[[], None]] = set()
        self._status: int = HealthCheckResponse.SERVING

    def drain(self) -> None:
        """Say from now on that they are not."""
        self._status = HealthCheckResponse.NOT_SERVING
        for tell in tuple(self.watchers):
            tell()

    def status(self, service: str) -> int:
        """Return what to say of *service*: there is one answer, for ``""``."""
        unknown: int = HealthCheckResponse.SERVICE_UNKNOWN
        return unknown if service else self._status


def _health_method(
    health: Health, make: Callable[[Health, Push], Call], *, stays: bool = False
) -> Method:
    def opened(_: Mapping[str, str], push: Push) -> Call:
        return make(health, push)

    return Method("health", "", None, opened, stays)


def _response(status: int) -> bytes:
    response: bytes = HealthCheckResponse(status=status).SerializeToString()
    return response


class _Check:
    """One question, one answer."""

    def __init__(self, health: Health, _: Push) -> None:
        self._health = health
        self.finished = False

    def receive(self, message: bytes) -> bytes:
        service = HealthCheckRequest.FromString(message).service
        status = self._health.status(service)
        if status == HealthCheckResponse.SERVICE_UNKNOWN:
            raise StatusError(Status.NOT_FOUND, "no such service")
        self.finished = True
        return _response(status)

    def closed(self) -> None:
        pass


class _Watch:
    """One question, and an answer whenever it is another one."""

    finished = False

    def __init__(self, health: Health, push: Push) -> None:
        self._health = health
        self._push = push
        self._service = ""

    def receive(self, message: bytes) -> bytes:
        self._service = HealthCheckRequest.FromString(message).service
        self._health.watchers.add(self._tell)
        return _response(self._health.status(self._service))

    def closed(self) -> None:
        self._health.watchers.discard(self._tell)

    def _tell(self) -> None:
        self._push(_response(self._health.status(self._service)))
