"""What is said about keys that are known and refused."""

import pytest

from tokenweir.core.policy import KeyEnd
from tokenweir.extproc.key_wording import ended_key, route_not_allowed


@pytest.mark.parametrize(
    ("end", "remedy"),
    [
        (KeyEnd.EXPIRED, "another one"),
        (KeyEnd.ROTATED, "Use the new one"),
        (KeyEnd.REVOKED, "another one"),
    ],
)
def test_ended_key(end: KeyEnd, remedy: str) -> None:
    """Each end says since when, and what helps."""
    text = ended_key(end, 1_767_268_800_999)

    assert "2026-01-01T12:00:00Z" in text
    assert remedy in text
    assert str(end) in text


def test_route_not_allowed() -> None:
    """The route is named, and nothing of what would be allowed."""
    assert '"messages"' in route_not_allowed("messages")
