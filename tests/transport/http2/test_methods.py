"""What can be called."""

from __future__ import annotations

import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from tests.transport.http2.echo import PATH, STREAM_PATH, Echo, EchoCall
from tokenweir.transport.base import Call
from tokenweir.transport.http2.methods import Health, Method, methods
from tokenweir.transport.http2.statuses import Status, StatusError

SERVING = HealthCheckResponse(status="SERVING").SerializeToString()
NOT_SERVING = HealthCheckResponse(status="NOT_SERVING").SerializeToString()
UNKNOWN = HealthCheckResponse(status="SERVICE_UNKNOWN").SerializeToString()
ANY = HealthCheckRequest().SerializeToString()
OTHER = HealthCheckRequest(service="other").SerializeToString()


def found(health: Health | None = None) -> dict[str, Method]:
    """Return the methods of two services."""
    services = (Echo(), Echo(STREAM_PATH, b"bye"))
    return methods(services, health or Health())


def opened(method: Method, pushed: list[bytes]) -> Call:
    """Return a call of *method*."""
    call = method.open({}, pushed.append)
    assert call is not None
    return call


def test_services() -> None:
    """Each service is a method by its path, with its own words."""
    echo, sink = found()[PATH], found()[STREAM_PATH]

    assert isinstance(opened(echo, []), EchoCall)
    assert echo.open({"refuse": ""}, print) is None
    assert (echo.name, echo.refusal, echo.last_word) == (
        "echo",
        "nobody of yours",
        None,
    )
    assert sink.last_word == b"bye"


def test_check() -> None:
    """A health check is one answer, and another one once this process drains."""
    health = Health()
    method = found(health)["/grpc.health.v1.Health/Check"]
    call = opened(method, [])
    assert not call.finished
    assert call.receive(ANY) == SERVING
    assert call.finished
    call.closed()

    health.drain()
    assert opened(method, []).receive(ANY) == NOT_SERVING


def test_check_of_another_service() -> None:
    """Services that nobody has heard of are not found."""
    call = opened(found()["/grpc.health.v1.Health/Check"], [])
    with pytest.raises(StatusError) as refused:
        call.receive(OTHER)
    assert refused.value.status is Status.NOT_FOUND


def test_watch() -> None:
    """Who watches is told now, and at each change until the call is closed."""
    health = Health()
    method = found(health)["/grpc.health.v1.Health/Watch"]
    pushed: list[bytes] = []
    watching, over = opened(method, pushed), opened(method, pushed)
    assert watching.receive(ANY) == over.receive(ANY) == SERVING
    assert not watching.finished
    over.closed()
    health.drain()

    assert pushed == [NOT_SERVING]
    watching.closed()
    assert health.watchers == set()


def test_watch_of_another_service() -> None:
    """A service may yet come: whoever watches it waits."""
    call = opened(found()["/grpc.health.v1.Health/Watch"], [])

    assert call.receive(OTHER) == UNKNOWN
    assert not call.finished
