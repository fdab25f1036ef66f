"""
What is known about a model besides its name, for counting its tokens.

Pure declarations: `tokenweir.tokenizers` goes by them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tokenweir.core.calibration import Place
from tokenweir.core.tokenize_server import TokenizeServer


@dataclass(frozen=True, slots=True)
class Hints:
    """
    Attributes:
        place: Where the estimate is made: what corrections are learned of. None: none
            is to be used.
        message_tokens: Tokens around each message, as the policy says it, or None.
        server: Who can be asked for the count, or None.
        is_corrected: Whether corrections are used.
    """

    place: Place | None = None
    message_tokens: int | None = None
    server: TokenizeServer | None = field(default=None, repr=False)
    is_corrected: bool = True


NO_HINTS = Hints()
