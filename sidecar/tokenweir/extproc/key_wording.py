"""What refusals say about keys that are known and do not open the door all the same."""

from __future__ import annotations

from tokenweir.core.policy import KeyEnd
from tokenweir.extproc.budget_wording import moment


def ended_key(end: KeyEnd, since_ms: int) -> str:
    """Return since when and why a key does not work, and what to do."""
    since = moment(since_ms)
    if end is KeyEnd.REVOKED:
        return (
            f"This API key was revoked at {since}: it is refused for good. Ask whoever "
            "runs the gateway for another one."
        )
    if end is KeyEnd.ROTATED:
        return (
            "This API key was rotated: a new secret has taken its place, and this one "
            f"is refused since {since}. Use the new one."
        )
    return (
        f"This API key has expired: it is refused since {since}. Ask whoever runs the "
        "gateway for another one."
    )


def route_not_allowed(route: str) -> str:
    """Return what a key may not be used for. *route* is a name of ours."""
    return (
        f'This API key may not be used for requests of the route "{route}": the policy '
        "of this gateway limits it to others. Check the path, use another key, or have "
        "the route allowed."
    )
