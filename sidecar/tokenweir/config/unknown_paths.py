"""
What may pass that no dialect reads, as a provider's `unknown_paths` says it.

    refuse                    nothing
    opaque                    everything
    [GET /v1/files/*, …]      these; a * at the end stands for any rest of the path
"""

from __future__ import annotations

import re
from typing import Final

from tokenweir.core.policy import EVERY_PATH

WORDS: Final[dict[str, tuple[str, ...]]] = {"refuse": (), "opaque": (EVERY_PATH,)}
# A path has no characters that servers differ about, so that what is listed is what
# passes.
OPAQUE_PATH: Final = (
    r"^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) /[A-Za-z0-9._~:@+,=/-]{0,255}\*?$"
)
_EXAMPLE: Final = "`POST /v1/vector_stores` or `GET /v1/files/*`"


def parse_unknown_paths(value: object) -> tuple[str, ...]:
    """
    Return the patterns that *value* stands for.

    Raises:
        ValueError: Says what is wrong, without a part of *value*.
    """
    if isinstance(value, str) and value in WORDS:
        return WORDS[value]
    if not isinstance(value, list):
        raise ValueError(  # noqa: TRY004 - pydantic takes no other
            f"must be 'refuse', 'opaque' or a list of methods and paths: {_EXAMPLE}"
        )
    if not value:
        raise ValueError("must not be an empty list: say `refuse`")
    for entry in value:
        if not isinstance(entry, str) or not re.fullmatch(OPAQUE_PATH, entry):
            raise ValueError(f"must list a method and a path each: {_EXAMPLE}")
    return tuple(value)
