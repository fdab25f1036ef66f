"""
OpenAI's APIs as Azure serves them.

What Azure calls a deployment is a model here. Its older paths name it; its newer ones,
as OpenAI's, leave that to the body:

    /openai/deployments/{deployment}/chat/completions?api-version=2024-10-21
    /openai/v1/chat/completions

Errors are told as OpenAI tells them: so does Azure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tokenweir.core.dialects import fields
from tokenweir.core.dialects.base import Edits, ErrorFacts, ModelRequest, ResponseFacts
from tokenweir.core.dialects.openai_api import OpenAIApi
from tokenweir.core.dialects.path_form import PathForm
from tokenweir.core.events import Headers
from tokenweir.core.sse import ServerSentEvent

# Older versions refuse a request that asks for the usage of a stream.
_FIRST_WITH_USAGE = "2024-09"
_VERSION = re.compile(r"[?&]api-version=(20[0-9]{2}-[0-9]{2})")


@dataclass(frozen=True, slots=True)
class Deployment:
    """
    What a path says of whom it calls.

    Attributes:
        form: Of the path.
        name: The deployment.
        can_report: Whether this version reports the usage of streams.
    """

    form: PathForm
    name: str
    can_report: bool = True


class AzureOpenAI:
    """One of OpenAI's APIs; of one *deployment*, or of what the body names."""

    name = "azure"

    def __init__(self, api: OpenAIApi, deployment: Deployment | None = None) -> None:
        self.route = api.route
        self._api = api
        self._deployment = deployment

    def sent_with(self, headers: Headers) -> AzureOpenAI:
        """Return what reads a body that is sent with *headers*."""
        return AzureOpenAI(self._api.sent_with(headers), self._deployment)

    def parse_request(self, body: bytes) -> ModelRequest:
        """Read a body; what the path names wins. Raises: MalformedRequestError."""
        if self._deployment is None:
            return self._api.parse_request(body)
        members = self._api.read_members(body)
        name = fields.model_name({"model": self._deployment.name})
        request = self._api.read_request(members, name)
        if self._deployment.can_report:
            return request
        return replace(
            request, wants_usage=True
        )  # in vain: then what passes is counted

    def rewrite(self, body: bytes, edits: Edits) -> bytes:
        """Return *body* with *edits*, but for a model that is in the path."""
        if self._deployment is not None:
            edits = replace(edits, model=None)
        return self._api.rewrite(body, edits)

    def rewrite_path(self, path: str, edits: Edits) -> str:
        """Return *path* with the model that it names."""
        if self._deployment is None or edits.model is None:
            return path
        return self._deployment.form.with_model(path, edits.model)

    def read_event(self, event: ServerSentEvent, facts: ResponseFacts) -> None:
        """Take one event."""
        self._api.read_event(event, facts)

    def read_body(self, body: bytes, facts: ResponseFacts) -> None:
        """Take a whole JSON reply."""
        self._api.read_body(body, facts)

    def error_body(self, error: ErrorFacts) -> bytes:
        """Write *error* as OpenAI does."""
        return self._api.error_body(error)


def can_report(path: str) -> bool:
    """Tell if the version that *path* asks for, if any, reports the usage of streams."""
    version = _VERSION.search(path)
    return version is None or version[1] >= _FIRST_WITH_USAGE
