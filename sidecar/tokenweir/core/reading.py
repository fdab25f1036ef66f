"""Reading a request's body: the share of an exchange that any thread may do."""

from __future__ import annotations

from dataclasses import replace

from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.events import RequestBody
from tokenweir.core.identify import Door, Entry
from tokenweir.core.prompt_part import Audit
from tokenweir.core.prompt_parts import parts_of
from tokenweir.core.request_coding import decoded


def read_encoded(event: RequestBody, encoding: str, limit_bytes: int) -> RequestBody:
    """Return *event* with its body decoded, or why that can't be."""
    if not encoding:
        return event
    try:
        plain = decoded(event.body, encoding, limit_bytes)
    except MalformedRequestError as error:
        return replace(event, read=error)
    if not isinstance(plain, bytes):
        return replace(event, read=plain)
    return replace(event, body=plain, decoded=True)


def read(event: RequestBody, entry: Entry, audit: Audit, tenant: str) -> RequestBody:
    """Return *event* with what its body says, or why it can't be read."""
    try:
        request = entry.errors.parse_request(event.body)
    except MalformedRequestError as error:
        return replace(event, read=error)
    if entry.door is not Door.METERED or not audit.is_for(tenant):
        return replace(event, read=request)
    found = parts_of(request.prompt, tenant, keeps_text=audit.keeps_text_of(tenant))
    return replace(event, read=request, prompt=found.parts, kept_texts=found.texts)
