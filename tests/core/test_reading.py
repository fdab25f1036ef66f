"""Reading a body changes nothing, and says what of its prompt repeats."""

from __future__ import annotations

import gzip

import pytest

from tests.examples import CHAT, MESSAGES, head
from tests.wire import chat, messages
from tokenweir.core.dialects.base import ModelRequest
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.events import RequestBody
from tokenweir.core.identify import entry_of
from tokenweir.core.prompt_part import Audit, Kind
from tokenweir.core.reading import read, read_encoded
from tokenweir.core.rejection import BodyTooLarge

BODY = chat(messages=[{"role": "system", "content": "Be brief."}])
AUDIT = Audit()


def kinds(
    body: bytes = BODY, audit: Audit = AUDIT, path: str = CHAT
) -> list[Kind] | None:
    """Return the parts that repeat, None: nobody asked."""
    found = read(RequestBody(body), entry_of(head("POST", path)), audit, "acme")
    assert found.body == body
    assert isinstance(found.read, ModelRequest)
    return None if found.prompt is None else [part.kind for part in found.prompt.parts]


def test_what_repeats() -> None:
    """It is looked for unless the policy says otherwise."""
    assert kinds() == [Kind.SYSTEM]
    assert kinds(messages(system="Be brief."), path=MESSAGES) == [Kind.SYSTEM]
    assert kinds(audit=Audit(prompts=False)) is None
    assert kinds(audit=Audit(prompts_of=("globex",))) is None


def test_what_costs_nothing_is_not_looked_at() -> None:
    """Counting tokens is no call of a model."""
    assert kinds(messages(system="Be brief."), path=f"{MESSAGES}/count_tokens") is None


def test_what_cannot_be_read() -> None:
    """The reason is told, and nothing else."""
    found = read(RequestBody(b"{"), entry_of(head("POST", CHAT)), AUDIT, "acme")

    assert isinstance(found.read, MalformedRequestError)
    assert found.prompt is None


@pytest.mark.parametrize("tenant", ["acme", "globex"])
def test_no_text_goes_along(tenant: str) -> None:
    """What crosses to the response side is a hash."""
    found = read(RequestBody(BODY), entry_of(head("POST", CHAT)), AUDIT, tenant)

    assert "brief" not in repr((found.prompt, found.kept_texts))


@pytest.mark.parametrize(("tenant", "keeps"), [("acme", True), ("globex", False)])
def test_texts_that_may_be_kept(tenant: str, keeps: bool) -> None:
    """They come along for whom the policy says so, by digest, and are in no log."""
    audit = Audit(keep_prompt_text=True, keep_prompt_text_of=("acme",))
    found = read(RequestBody(BODY), entry_of(head("POST", CHAT)), audit, tenant)
    assert found.prompt is not None
    [part] = found.prompt.parts

    assert found.kept_texts == ({part.digest: "Be brief."} if keeps else {})
    assert "kept_texts" not in repr(found)


def test_encoded() -> None:
    """What is decoded is the body from then on; without a coding nothing changes."""
    event = RequestBody(gzip.compress(BODY))

    assert read_encoded(event, "", 1_000) is event
    assert read_encoded(event, "gzip", 1_000) == RequestBody(BODY, decoded=True)


def test_what_cannot_be_decoded() -> None:
    """The reason is told: it is none of that coding, or too large."""
    broken = read_encoded(RequestBody(b"x"), "gzip", 1_000)
    large = read_encoded(RequestBody(gzip.compress(BODY)), "gzip", 10)

    assert isinstance(broken.read, MalformedRequestError)
    assert large.read == BodyTooLarge(10)
    assert not large.decoded
