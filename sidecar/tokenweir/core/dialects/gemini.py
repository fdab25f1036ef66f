"""
Google's Gemini API.

The path names the model and what is wanted of it:

    /v1beta/models/{model}:generateContent
    /v1beta/models/{model}:streamGenerateContent?alt=sse    (else as one JSON array)

Every piece of a stream reports, so nothing has to be asked for. But whoever calls can
have members left out of the answer, such as its usage, or have it in another form than
JSON: nobody could tell then how much was thought, so that is refused.
"""

from __future__ import annotations

from urllib.parse import unquote_plus

from tokenweir.core.dialects import fields
from tokenweir.core.dialects.base import Edits, ErrorFacts, ModelRequest, ResponseFacts
from tokenweir.core.dialects.facts import note_strange_data
from tokenweir.core.dialects.fields import Members
from tokenweir.core.dialects.gemini_prompt import either, generation_config, read_prompt
from tokenweir.core.dialects.gemini_reply import read_reply
from tokenweir.core.dialects.path_form import Called
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.events import Headers
from tokenweir.core.json_edit import set_inner_member
from tokenweir.core.json_text import parse_object, read_value, write_value
from tokenweir.core.sse import ServerSentEvent

# How members are left out: in the query, or by a header.
# https://cloud.google.com/apis/docs/system-parameters
_MASKS = frozenset({"fields", "callback"})
_JSON_FORMS = frozenset({"", "json", "sse"})
_MASK_HEADER = "x-goog-fieldmask"
# Google's limit.
MAX_CANDIDATES = 8
_CAPS = ("maxOutputTokens", "max_output_tokens")
_CONFIGS = ("generationConfig", "generation_config")
_CANDIDATES = ("candidateCount", "candidate_count")
_MODALITIES = ("responseModalities", "response_modalities")
# https://cloud.google.com/apis/design/errors
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_OTHER_SERVER_ERROR = "INTERNAL"
_OTHER_CLIENT_ERROR = "INVALID_ARGUMENT"
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"


class Gemini:
    """
    One of its methods; *route* is the class of its paths.

    Without *called* it reads answers and writes errors only. *masked*: the answer is to
    be no whole JSON.
    """

    name = "gemini"

    def __init__(
        self, route: str, called: Called | None = None, *, masked: bool = False
    ) -> None:
        self.route = route
        self._called = called
        self._masked = masked

    def parse_request(self, body: bytes) -> ModelRequest:
        """Read a body. Raises: MalformedRequestError."""
        assert self._called is not None
        if self._masked:
            text = (
                "Only whole answers in JSON are metered: no `fields`, no other `alt`."
            )
            raise MalformedRequestError(text, "fields")
        members = parse_object(body)
        config = generation_config(members)
        for place, names in (
            (members, _CONFIGS),
            (config, _CAPS),
            (config, _CANDIDATES),
        ):
            _check_once(place, names)
        generates = self.route == "generate_content"
        return ModelRequest(
            model=fields.model_name({"model": self._called.model}),
            stream=self._called.streams,
            output_cap=_integer(config, _CAPS, fields.MAX_TOKENS) if generates else 0,
            choices=_integer(config, _CANDIDATES, MAX_CANDIDATES) or 1,
            user="",
            wants_usage=True,
            prompt=read_prompt(members),
            speaks="AUDIO" in str(either(config, *_MODALITIES)).upper(),
        )

    def rewrite(self, body: bytes, edits: Edits) -> bytes:
        """Return *body* with *edits*: the model is in the path."""
        if edits.output_cap is None:
            return body
        members = parse_object(body)
        outer = next((n for n in _CONFIGS if members.get(n) is not None), _CONFIGS[0])
        config = generation_config(members)
        inner = next((n for n in _CAPS if config.get(n) is not None), _CAPS[0])
        return set_inner_member(body, outer, inner, str(edits.output_cap).encode())

    def rewrite_path(self, path: str, edits: Edits) -> str:
        """Return *path* with the model that it names."""
        if self._called is None or edits.model is None:
            return path
        return self._called.form.with_model(path, edits.model)

    def read_event(self, event: ServerSentEvent, facts: ResponseFacts) -> None:
        """Take one event; what is no JSON object is not read."""
        if event.data.lstrip().startswith(b"{"):
            self.read_body(event.data, facts)
        else:
            note_strange_data(facts, event.data)

    def read_body(self, body: bytes, facts: ResponseFacts) -> None:
        """Take a whole JSON reply, or a piece of a stream."""
        reply = read_value(body)
        if isinstance(reply, dict):
            read_reply(reply, facts)
        else:
            facts.unreadable = True

    def error_body(self, error: ErrorFacts) -> bytes:
        """Write *error* as Google does, with when to try again."""
        other = _OTHER_SERVER_ERROR if error.status >= 500 else _OTHER_CLIENT_ERROR
        members: Members = {
            "code": error.status,
            "message": error.message,
            "status": _STATUSES.get(error.status, other),
        }
        wait_ms = error.detail.get("retry_after_ms")
        if isinstance(wait_ms, int):
            delay = f"{wait_ms // 1000}.{wait_ms % 1000:03}s"
            members["details"] = [{"@type": _RETRY_INFO, "retryDelay": delay}]
        return write_value({"error": members | {"tokenweir": dict(error.detail)}})


def is_masked(path: str, headers: Headers) -> bool:
    """Tell if the answer to a request is to have another form than whole JSON."""
    _, _, query = path.partition("?")
    by_header = any(name == _MASK_HEADER for name, _ in headers)
    return by_header or any(map(_is_mask, query.split("&")))


def _is_mask(pair: str) -> bool:
    name, _, value = (unquote_plus(part) for part in pair.partition("="))
    name = name.removeprefix("$")
    return name in _MASKS or (name == "alt" and value.lower() not in _JSON_FORMS)


def _check_once(place: Members, names: tuple[str, ...]) -> None:
    if len([name for name in names if name in place]) > 1:
        text = f"`{names[0]}` must be there once, in one spelling."
        raise MalformedRequestError(text, names[0])


def _integer(config: Members, names: tuple[str, ...], high: int) -> int | None:
    for name in names:
        if config.get(name) is not None:
            return fields.integer(config, name, high=high)
    return None
