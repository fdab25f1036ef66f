"""
What a request looks like on its way to the provider.

Headers say which cluster it goes to and with which credential. Of the body only what
the policy asks for is changed. The ticket tells the response side what was decided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tokenweir.core import headers
from tokenweir.core.admission import Plan, Target
from tokenweir.core.commands import Forward
from tokenweir.core.dialects.base import Edits, ModelRequest
from tokenweir.core.events import (
    NOT_COUNTED,
    Counted,
    Headers,
    RequestBody,
    RequestHead,
)
from tokenweir.core.hold import Granted, Hold
from tokenweir.core.identify import COUNTING_ROUTE, KEY_HEADERS, Entry, is_key
from tokenweir.core.policy import Policy, Secret
from tokenweir.core.response_path import ResponsePath
from tokenweir.core.ticket import Ticket

CLUSTER_HEADER = "x-tokenweir-cluster"
TIMEOUT_HEADER = "x-tokenweir-timeout"
PATH_HEADER = "x-tokenweir-path"
# What paths of most APIs begin with.
_VERSION = "/v1"
# Where providers look for a key, by dialect; others: a bearer's.
_KEY_HEADER = {
    "anthropic": "x-api-key",
    "azure": "api-key",
    "gemini": "x-goog-api-key",
}
# What comes with a signature of AWS': secrets of the app's, or of no use without it.
_OF_SIGNATURE = ("x-amz-security-token", "x-amz-date", "x-amz-content-sha256")
_NO_BODY = RequestBody(b"")


@dataclass(frozen=True, slots=True)
class Admitted:
    """
    A request that may go.

    Attributes:
        policy: The exchange's.
        plan: How it was admitted.
        hold: What was reserved.
        granted: The ledger's answer.
        flags: Such as ``"ledger_open"``.
        counted: The input.
    """

    policy: Policy
    plan: Plan
    hold: Hold
    granted: Granted
    flags: tuple[str, ...] = ()
    counted: Counted = NOT_COUNTED


@dataclass(frozen=True, slots=True)
class Incoming:
    """
    What came.

    Attributes:
        head: Of the request.
        entry: The door that it came by.
        started_ms: When its head came.
        request: The facts of its body; None: nobody read it.
        body: Its bytes, and what of them can repeat, if that is audited.
    """

    head: RequestHead
    entry: Entry
    started_ms: int
    request: ModelRequest | None = None
    body: RequestBody = _NO_BODY


def forward(incoming: Incoming, admitted: Admitted) -> Forward:
    """Return what Envoy is told about a request that may go."""
    target = admitted.plan.target
    changes, removals = outgoing_headers(admitted.policy, target, incoming.entry.route)
    dialect, path = incoming.entry.errors, incoming.head.path
    edits = _edits(incoming.request, admitted.plan)
    body = dialect.rewrite(incoming.body.body, edits) if edits else None
    new_path = dialect.rewrite_path(path, edits)
    if dialect.name == "gemini" and target.provider.credential is not None:
        new_path = _without_key(new_path)
    version = target.provider.version_path
    if version is not None and new_path.startswith(_VERSION + "/"):
        new_path = version + new_path.removeprefix(_VERSION)
    if new_path != path:
        changes = (*changes, (":path", new_path))
    if body is not None and incoming.body.decoded:
        # An edited body goes as it is: nobody would gain from encoding it again.
        removals = (*removals, "content-encoding")
    ticket = _ticket(incoming, admitted)
    taken = ticket.hold.subject.path
    reply: Headers = ()
    if taken != ResponsePath.INSPECT:  # where Envoy's routes lead without a word
        changes = (*changes, (PATH_HEADER, taken))
        reply = headers.visible_headers((), ticket, incoming.started_ms).set_headers
    return Forward(
        ticket,
        changes,
        removals,
        body,
        edits.include_usage,
        reply,
        incoming.body.kept_texts,
    )


def _edits(request: ModelRequest | None, plan: Plan) -> Edits:
    if request is None:
        return Edits()
    target, cap = plan.target, plan.cap
    renamed = target.upstream_name != request.model
    may_ask = target.provider.ask_for_usage
    edits = Edits(
        model=target.upstream_name if renamed else None,
        include_usage=may_ask and request.stream and not request.wants_usage,
    )
    if not cap.is_changed:
        return edits
    return replace(
        edits,
        output_cap=cap.tokens,
        output_cap_field=target.provider.output_cap_field,
        thinking_tokens=cap.thinking_tokens,
    )


def _without_key(path: str) -> str:
    """Return *path* without the app's key in its query; the rest stays as written."""
    plain, mark, query = path.partition("?")
    if not mark:
        return path
    kept = [pair for pair in query.split("&") if not is_key(pair.partition("=")[0])]
    return f"{plain}?{'&'.join(kept)}" if kept else plain


def _ticket(incoming: Incoming, admitted: Admitted) -> Ticket:
    granted = admitted.granted
    ticket = Ticket(
        admitted.hold,
        incoming.started_ms,
        incoming.head.method,
        states=granted.states,
        shadowed=granted.shadowed,
        flags=admitted.flags,
    )
    request, target = incoming.request, admitted.plan.target
    if (
        request is None
        or target.model is None
        or incoming.entry.route == COUNTING_ROUTE
    ):
        return ticket  # nobody reads the answer
    model, cap, asked = target.model, admitted.plan.cap, admitted.plan.asked
    most = request.output_cap if cap.tokens is None else cap.tokens
    if not request.can_be_capped:
        most = None  # nobody has told the provider
    return replace(
        ticket,
        dialect=incoming.entry.errors.route,
        counting_model=target.upstream_name,
        tokenizer=model.tokenizer,
        output_cap=None if most is None else most * request.choices,
        choices=request.choices,
        max_output_tokens=model.max_output_tokens if model.maximum_is_known else None,
        expected_tokens=cap.expected,
        instead_of=(asked.provider.name, asked.upstream_name) if asked else None,
        text_tokens=admitted.counted.text_tokens,
        uncorrected=admitted.counted.uncorrected,
        calibrated=model.calibrated,
        prompt=incoming.body.prompt,
    )


def outgoing_headers(
    policy: Policy, target: Target, route: str
) -> tuple[tuple[tuple[str, str | Secret], ...], tuple[str, ...]]:
    """Return the headers to set and to remove on the way to the provider."""
    provider = target.provider
    timeout = target.model.timeout_class if target.model else None
    timeout = timeout or policy.route_timeouts.get(route, "default")
    changes: list[tuple[str, str | Secret]] = [
        (CLUSTER_HEADER, provider.cluster),
        (TIMEOUT_HEADER, timeout),
    ]
    if provider.credential is None:
        return tuple(changes), ()
    header, credential = _KEY_HEADER.get(provider.dialect), provider.credential
    if header is None:
        header = "authorization"
        credential = Secret(f"Bearer {credential.reveal()}")
    changes.append((header, credential))
    # The app's own key proves who pays; it is none of the provider's business.
    removals = tuple(name for name in KEY_HEADERS if name != header)
    if provider.dialect == "bedrock":
        removals += _OF_SIGNATURE
    return tuple(changes), removals
