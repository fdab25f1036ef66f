"""
Where a webhook may be: at a URL that the policy's author has chosen.

Whoever may write the policy decides where credentials go, so no address is forbidden
to them; but what is sent is never sent in the clear to another machine. Nothing of the
URL is repeated in a message: it may hold a token.
"""

from __future__ import annotations

import re

from tokenweir.config.base_url import parse_base_url

MAX_CHARS = 2_048
URL_PATTERN = r"^https?://[^#\s]+$"

_URL = re.compile(
    r"(?P<origin>(?P<scheme>https?)://[^/?#]*)(?P<rest>[/?][!-~]*)?", re.IGNORECASE
)
# The name counts as this machine's; other names below it may be anybody's.
_HERE = re.compile(r"localhost|127\.[0-9.]+|::1")


def parse_webhook_url(value: object) -> str:
    """
    Return *value*, a URL that can be posted to.

    Raises:
        ValueError: Says what is wrong, without a part of *value*.
    """
    match = _URL.fullmatch(value) if isinstance(value, str) else None
    if not isinstance(value, str) or match is None:
        raise ValueError("must be a URL that begins with https://")
    if len(value) > MAX_CHARS:
        raise ValueError(f"must have at most {MAX_CHARS:,} characters")
    if "#" in value:
        raise ValueError("must not hold a fragment: end it before #")
    if "@" in match["origin"]:
        raise ValueError("must not hold a user name or password")
    base = parse_base_url(match["origin"])
    if base.scheme == "http" and not _HERE.fullmatch(base.host):
        raise ValueError("must begin with https://, unless it is on this machine")
    return value
