"""What to do about a ledger that does not answer, by what it says: for people."""

from __future__ import annotations

from collections.abc import Mapping

from tokenweir.core.errors import NewerFormatError
from tokenweir.ledger.faults import reason_of

_NEWER = (
    "A newer Tokenweir has written there: use the version of the newest processors. "
    "Nothing was read or changed."
)
_ADVICE: Mapping[str, str] = {
    "SSLCertVerificationError": (
        "Its certificate can't be relied on: it is signed by nobody we trust, has "
        "expired, or is of another host. Name the PEM file of those who sign it: "
        "?ssl_ca_certs=FILE."
    ),
    "SSLError": (
        "TLS failed. Does it speak TLS on that port, and does it want a certificate of "
        "ours (ssl_certfile and ssl_keyfile)?"
    ),
    "AuthenticationError": (
        "It does not take this user and password: see the URL, or the file that its "
        "password_file names."
    ),
    "PasswordFileError": "The file that password_file names can't be read.",
    "NoPermissionError": (
        "This user may not do that: deploy/redis/tokenweir.acl has a user for each task."
    ),
    "ReadOnlyError": (
        "It is a replica: name the primary, or the Sentinels (redis+sentinel://)."
    ),
    "MovedError": "It is one node of a Cluster: write redis+cluster://.",
    "BusyLoadingError": "It has just started and reads its data: wait.",
    "OutOfMemoryError": "Its memory is full: see docs/runbook.md.",
    "BUSY": "A script of somebody else's runs there for too long: SCRIPT KILL ends it.",
    "MasterDownError": "It is a replica that has lost its primary: see its own log.",
    "PrimaryUnknownError": (
        "No Sentinel answers, or none knows the service that the URL names."
    ),
    "ClusterDownError": "Its Cluster is down: `redis-cli --cluster check` tells why.",
    "NoNodeError": (
        "No node of the Cluster has those keys: `redis-cli --cluster check` tells why."
    ),
    "TryAgainError": "A slot of the Cluster is moving to another node: try again.",
    "AskError": "A slot of the Cluster is moving to another node: try again.",
}


def advice(error: BaseException) -> str:
    """
    Return what is wrong with a ledger, and what to do about it; ``""``: nobody knows.

    *error* is what `tokenweir.ledger.link.Link` raised, or what caused that.
    """
    if isinstance(error, NewerFormatError):
        return _NEWER
    reason = reason_of(error.__cause__ or error)
    # Before Redis 7 a script's error has the server's own words.
    return _ADVICE.get(reason) or _ADVICE.get(_NAMES.get(reason, ""), "")


_NAMES = {
    "READONLY": "ReadOnlyError",
    "OOM": "OutOfMemoryError",
    "NOPERM": "NoPermissionError",
    "LOADING": "BusyLoadingError",
    "CLUSTERDOWN": "ClusterDownError",
    "MASTERDOWN": "MasterDownError",
    "TRYAGAIN": "TryAgainError",
}
