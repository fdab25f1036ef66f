"""The service is Envoy's, and opens a call for whoever comes."""

from __future__ import annotations

from envoy.service.accesslog.v3 import als_pb2

from tests.driver.fakes import Kit
from tokenweir.accesslog.service import AccessLogService
from tokenweir.accesslog.session import LogSession


async def test_envoys_service() -> None:
    """Its path is the one in Envoy's protos, and its last word is its answer."""
    service = AccessLogService(Kit().services)
    [method] = als_pb2.DESCRIPTOR.services_by_name["AccessLogService"].methods

    assert service.path == f"/{method.containing_service.full_name}/{method.name}"
    assert service.last_word == als_pb2.StreamAccessLogsResponse().SerializeToString()
    assert service.name == "access_log"


async def test_every_stream_is_taken() -> None:
    """Metadata tells nothing: who reaches the socket is Envoy."""
    service = AccessLogService(Kit().services)

    assert isinstance(service.open({}), LogSession)
    assert isinstance(service.open({"x": "y"}), LogSession)
