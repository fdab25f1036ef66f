"""Both sides of Envoy's connection to the processor use the same words."""

from tokenweir.core import headers, outgoing
from tokenweir.envoyconf import names
from tokenweir.extproc import messages, session


def test_headers() -> None:
    """The headers by which admission routes, and which no app can send."""
    assert names.CLUSTER_HEADER == outgoing.CLUSTER_HEADER
    assert names.TIMEOUT_HEADER == outgoing.TIMEOUT_HEADER
    assert names.PATH_HEADER == outgoing.PATH_HEADER
    ours = (
        *(names.CLUSTER_HEADER, names.TIMEOUT_HEADER, names.PATH_HEADER),
        headers.REFUSAL_HEADER,
    )
    assert all(name.startswith(names.GOVERNOR_PREFIX) for name in ours)


def test_roles() -> None:
    """The filters tell their roles by the words that the processor knows."""
    assert names.ROLE_METADATA == session.ROLE_HEADER
    assert names.RENDERED_METADATA == session.RENDERED_HEADER
    assert names.ADMISSION == session.ADMISSION
    assert names.RESPONSE == session.RESPONSE


def test_metadata() -> None:
    """There is one namespace of dynamic metadata."""
    assert names.METADATA_NAMESPACE == messages.NAMESPACE
