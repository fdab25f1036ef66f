"""Both sides of Envoy's connection to the processor use the same words."""

from tokenweir.core import headers, outgoing
from tokenweir.envoyconf import filters, names
from tokenweir.extproc import codec, messages, session


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
    """There is one namespace of dynamic metadata, and one place for changes in it."""
    assert names.METADATA_NAMESPACE == messages.NAMESPACE
    script = filters.lua_source("apply.lua")
    assert f'get("{messages.NAMESPACE}")' in script
    assert f'set("{messages.NAMESPACE}", "{messages.CHANGES}", {{}})' in script
    assert f'local PROVIDER = "{names.CLUSTER_HEADER}"' in script


def test_attribute() -> None:
    """What Lua writes of a head is what Envoy sends and the processor reads."""
    assert codec.HEAD == filters.HEAD_ATTRIBUTE
    for name in ("drain.lua", "apply.lua"):
        script = filters.lua_source(name)
        assert f'local WHOLE = "{names.WHOLE_HEADER}"' in script
