"""
What Envoy answers itself, told in the caller's dialect and with whose fault it is.

A reply is recognised by Envoy's details of it, never by its status alone: a
provider's own 500, 503 or 504 passes untouched, and so do the processor's refusals.

WARNING: the bodies imitate those of `tokenweir.extproc.respond`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from envoy_data_plane.envoy.config.accesslog.v3 import AccessLogFilter, ExtensionFilter
from envoy_data_plane.envoy.config.core.v3 import (
    DataSource,
    HeaderValue,
    HeaderValueOption,
    HeaderValueOptionHeaderAppendAction,
    SubstitutionFormatString,
)
from envoy_data_plane.envoy.extensions.access_loggers.filters.cel.v3 import (
    ExpressionFilter,
)
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import (
    LocalReplyConfig,
    ResponseMapper,
)
from envoy_data_plane.google.protobuf import Any

from tokenweir.core.dialects import by_route
from tokenweir.core.dialects.base import ErrorFacts
from tokenweir.core.dialects.bedrock_error import ERROR_TYPE_HEADER, error_type
from tokenweir.core.headers import REFUSAL_HEADER
from tokenweir.core.reason import Reason
from tokenweir.envoyconf.names import CLUSTER_HEADER


@dataclass(frozen=True, slots=True)
class LocalReply:
    """
    One kind of answer that Envoy makes up.

    Attributes:
        refusal: Why, for the refusal header and the body.
        when: CEL over the attributes of the exchange.
        status: HTTP status that the app gets.
        openai_type: OpenAI's ``error.type``.
        anthropic_type: Anthropic's ``error.type``.
        message: For people.
        retryable: The same request can succeed later.
        retry_after_s: Whole seconds, or None if no wait is known.
        others: Further statuses: Envoy's own is the more exact one, and is kept.
    """

    refusal: Reason
    when: str
    status: int
    openai_type: str
    anthropic_type: str
    message: str
    retryable: bool = True
    retry_after_s: int | None = None
    others: tuple[int, ...] = ()


NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_DETAILS: Final = "response.code_details"
_NAMED: Final = (  # the processor has admitted the request, to some provider
    f"'{CLUSTER_HEADER}' in request.headers && request.headers['{CLUSTER_HEADER}'] != ''"
)
REPLIES: Final = (
    LocalReply(
        refusal=Reason.GOVERNOR_UNAVAILABLE,
        when=(
            f"{_DETAILS}.startsWith('ext_proc_error')"
            f" || {_DETAILS}.startsWith('mismatch_between_content_length')"
            f" || {_DETAILS}.startsWith('header_mutation_')"
            # What it said was no answer, or none to this.
            f" || {_DETAILS} in ['unhandled_message', 'spurious_message']"
            # The processor named no provider at all.
            f" || ({_DETAILS} == 'cluster_not_found' && !({_NAMED}))"
        ),
        status=503,
        openai_type="server_error",
        anthropic_type="api_error",
        message=(
            "The token governor beside this gateway gave no answer. Nothing was sent "
            "to the provider. Trying again can help."
        ),
        retry_after_s=1,
    ),
    LocalReply(
        refusal=Reason.ENVOY_OUTDATED,
        when=f"{_DETAILS} == 'cluster_not_found' && {_NAMED}",
        status=503,
        openai_type="server_error",
        anthropic_type="overloaded_error",
        message=(
            "This gateway's policy has changed, and the Envoy that runs was not "
            "rendered from it: it does not know the provider as it is now. Nothing was "
            "sent to any provider. Tell whoever runs the gateway to render Envoy's "
            "configuration anew."
        ),
        retry_after_s=1,
    ),
    LocalReply(
        refusal=Reason.BODY_TOO_LARGE,
        when=f"{_DETAILS} == 'request_payload_too_large'",
        status=413,
        openai_type="invalid_request_error",
        anthropic_type="request_too_large",
        message="The request body is larger than this gateway takes.",
        retryable=False,
    ),
    LocalReply(
        refusal=Reason.UPSTREAM_TIMEOUT,
        when=(
            f"{_DETAILS} == 'response_timeout'"
            f" || ({_DETAILS} == 'stream_idle_timeout' && response.code == 504)"
        ),
        status=504,
        openai_type="server_error",
        anthropic_type="timeout_error",
        message="The provider did not answer in the time that this gateway gives it.",
    ),
    LocalReply(
        refusal=Reason.UPSTREAM_UNAVAILABLE,
        when=(
            f"{_DETAILS}.startsWith('upstream_reset_before_response_started')"
            # It had started, but nothing of it had been passed on.
            f" || {_DETAILS}.startsWith('upstream_reset_after_response_started')"
            f" || {_DETAILS} == 'no_healthy_upstream'"
        ),
        status=503,
        openai_type="server_error",
        anthropic_type="api_error",
        message=(
            "The connection from this gateway to the provider failed before an "
            "answer came."
        ),
    ),
    LocalReply(
        refusal=Reason.UPSTREAM_INVALID,
        # See lua/no_upgrade.lua.
        when=f"{_DETAILS}.startsWith('filter_removed_required_response_headers')",
        status=502,
        openai_type="server_error",
        anthropic_type="api_error",
        message=(
            "The provider switched to another protocol, which nobody had asked it to: "
            "what it would send can't be metered here. Check the provider's base_url."
        ),
        retryable=False,
    ),
    LocalReply(
        refusal=Reason.UPGRADE_NOT_METERED,
        when=f"{_DETAILS} == 'upgrade_failed'",
        status=403,
        openai_type="invalid_request_error",
        anthropic_type="permission_error",
        message=(
            "This gateway can't meter WebSockets or other upgraded connections, so it "
            "refuses them. Send the request as plain HTTP, without the header Upgrade."
        ),
        retryable=False,
    ),
    LocalReply(
        refusal=Reason.REQUEST_TIMEOUT,
        when=(
            f"{_DETAILS} in ['request_header_timeout', 'request_overall_timeout']"
            f" || ({_DETAILS} == 'stream_idle_timeout' && response.code == 408)"
        ),
        status=408,
        openai_type="invalid_request_error",
        anthropic_type="invalid_request_error",
        message=(
            "The request did not arrive whole in the time that this gateway gives it. "
            "Send it without long pauses; trying again can help."
        ),
    ),
    LocalReply(
        refusal=Reason.MALFORMED_REQUEST,
        when=(
            f"{_DETAILS}.startsWith('http1.')"
            f" || {_DETAILS}.startsWith('http2.')"
            f" || {_DETAILS} in ['path_normalization_failed', 'missing_host_header',"
            " 'missing_path_rejected', 'absolute_path_rejected',"
            " 'request_headers_too_large']"
        ),
        status=400,
        others=(404, 431, 501),
        openai_type="invalid_request_error",
        anthropic_type="invalid_request_error",
        message="This gateway can't read the request.",
        retryable=False,
    ),
)
# The path may have been rewritten for the provider by now, so it may begin with more.
ANTHROPIC_CALLER: Final = (
    "(request.url_path.contains('/v1/messages')"
    " || 'anthropic-version' in request.headers)"
)
# All SDKs of AWS say by a header which attempt it is.
BEDROCK_CALLER: Final = (
    "(request.url_path.contains('/model/') || 'amz-sdk-request' in request.headers)"
)

# Google serves OpenAI's API below its own.
GEMINI_CALLER: Final = (
    "((request.url_path.contains('/v1beta/')"
    " && !request.url_path.contains('/v1beta/openai/'))"
    " || request.url_path.matches("
    "'/models/[^/]*:((g|streamG)enerateContent|(e|batchE)mbedContent|countTokens)')"
    " || request.url_path.startsWith('/ws/google.'))"
)


def local_replies() -> LocalReplyConfig:
    """Return how Envoy's own answers are rewritten."""
    mappers = []
    for reply in REPLIES:
        bedrock = f"({reply.when}) && {BEDROCK_CALLER}"
        kind = {ERROR_TYPE_HEADER: bedrock_type(reply)}
        mappers.append(_mapper(reply, bedrock, bedrock_body(reply), kind))
        gemini = f"({reply.when}) && {GEMINI_CALLER}"
        mappers.append(_mapper(reply, gemini, gemini_body(reply)))
        anthropic = f"({reply.when}) && {ANTHROPIC_CALLER}"
        mappers.append(_mapper(reply, anthropic, anthropic_body(reply)))
        mappers.append(_mapper(reply, reply.when, openai_body(reply)))
    return LocalReplyConfig(mappers=mappers)


def openai_body(reply: LocalReply) -> str:
    """Return *reply* as an error of OpenAI's API, as JSON."""
    error = {
        "message": reply.message,
        "type": reply.openai_type,
        "code": reply.refusal,
        "param": None,
        "tokenweir": _detail(reply),
    }
    return json.dumps({"error": error})


def anthropic_body(reply: LocalReply) -> str:
    """Return *reply* as an error of Anthropic's API, as JSON."""
    error = {
        "type": reply.anthropic_type,
        "message": reply.message,
        "tokenweir": _detail(reply),
    }
    return json.dumps({"type": "error", "error": error})


def bedrock_body(reply: LocalReply) -> str:
    """Return *reply* as an error of Bedrock's, as JSON; its kind is in a header."""
    return json.dumps({"message": reply.message, "tokenweir": _detail(reply)})


def bedrock_type(reply: LocalReply) -> str:
    """Return what AWS' SDKs call *reply*."""
    return error_type(ErrorFacts(reply.status, "", None, reply.message, None, {}))


def gemini_body(reply: LocalReply) -> str:
    """Return *reply* as an error of Gemini's API, as JSON."""
    code, detail = reply.refusal, _detail(reply)
    facts = ErrorFacts(reply.status, "", code, reply.message, None, detail)
    return by_route("generate_content").error_body(facts).decode()


def _detail(reply: LocalReply) -> dict[str, object]:
    wait = reply.retry_after_s
    known = {} if wait is None else {"retry_after_ms": wait * 1000}
    return {**known, "retryable": reply.retryable, "refusal": reply.refusal}


def _mapper(
    reply: LocalReply, when: str, body: str, more: Mapping[str, str] = NO_HEADERS
) -> ResponseMapper:
    headers = {REFUSAL_HEADER: str(reply.refusal), **more}
    if reply.retry_after_s is not None:
        headers["retry-after"] = str(reply.retry_after_s)
    return ResponseMapper(
        filter=AccessLogFilter(
            extension_filter=ExtensionFilter(
                name="envoy.access_loggers.extension_filters.cel",
                typed_config=Any.pack(ExpressionFilter(expression=when)),
            )
        ),
        status_code=None if reply.others else reply.status,
        body_format_override=SubstitutionFormatString(
            # A per cent sign would begin a command of Envoy's formatter.
            text_format_source=DataSource(inline_string=body.replace("%", "%%")),
            content_type="application/json",
        ),
        headers_to_add=[_header(name, value) for name, value in headers.items()],
    )


def _header(name: str, value: str) -> HeaderValueOption:
    overwrite = HeaderValueOptionHeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD
    header = HeaderValue(key=name, value=value)
    return HeaderValueOption(header=header, append_action=overwrite)
