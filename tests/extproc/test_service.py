"""Which session a stream of Envoy's gets."""

from __future__ import annotations

import pytest

from tests.driver.fakes import Kit
from tests.examples import policy
from tokenweir.core.request_side import Arrival
from tokenweir.extproc.service import ExternalProcessor
from tokenweir.extproc.session import (
    RENDERED_HEADER,
    ROLE_HEADER,
    AdmissionSession,
    ResponseSession,
    Sessions,
)


def service(rendered: list[str]) -> ExternalProcessor:
    """Return a service over fakes that writes down what Envoy was *rendered* from."""
    kit = Kit()

    def arrive(text: str) -> Arrival:
        rendered.append(text)
        return Arrival(policy(), kit.hold_id())

    return ExternalProcessor(Sessions(kit.services, kit.handoff, arrive))


async def test_roles() -> None:
    """Each filter of ours is known by the role that it tells."""
    opened = service([])

    assert isinstance(opened.open({ROLE_HEADER: "admission"}), AdmissionSession)
    assert isinstance(opened.open({ROLE_HEADER: "response"}), ResponseSession)


@pytest.mark.parametrize("metadata", [{}, {ROLE_HEADER: ""}, {ROLE_HEADER: "admin"}])
async def test_strangers(metadata: dict[str, str]) -> None:
    """Without a role of ours there is no session, and the peer reads what it lacks."""
    opened = service([])

    assert opened.open(metadata) is None
    assert opened.refusal == "x-tokenweir-role is missing"


async def test_rendered() -> None:
    """What Envoy was made from is heard with each admission; it may tell nothing."""
    rendered: list[str] = []
    opened = service(rendered)
    opened.open({ROLE_HEADER: "admission", RENDERED_HEADER: "openai=1f2e"})
    opened.open({ROLE_HEADER: "admission"})

    assert rendered == ["openai=1f2e", ""]
