"""T01, T09, T10: an event stream is read by the standard's grammar, not by habit."""

from __future__ import annotations

import pytest

from tests.cases.apis import TOLD, Api, both_apis, story
from tests.cases.stage import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]


@both_apis
async def test_t01_no_space_after_the_colon(stage: Stage, api: Api) -> None:
    """
    `data:{…}` is read like `data: {…}`. envoyproxy/ai-gateway#2470
    """
    events = [event.replace(b": ", b":", 1) for event in story(api)]

    _, settled = await stage.stream(api, events)

    assert settled.usage == TOLD.usage
    assert settled.source == "reported"
