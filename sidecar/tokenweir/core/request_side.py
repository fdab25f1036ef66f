"""The request side of an exchange: from its head to the answer that Envoy gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from tokenweir.core import admission
from tokenweir.core.admission import Plan
from tokenweir.core.commands import (
    AwaitBody,
    Cancel,
    Forward,
    Reject,
    Reserve,
)
from tokenweir.core.dialects.base import ModelRequest
from tokenweir.core.downgrade import Attempt, next_attempt, with_next_model
from tokenweir.core.errors import MalformedRequestError
from tokenweir.core.estimating import count_prompt
from tokenweir.core.events import (
    NOT_COUNTED,
    Counted,
    Event,
    Refused,
    RequestBody,
    RequestHead,
    Reserved,
    WindowsTurned,
    header_value,
)
from tokenweir.core.exhausted import exhausted, never_held, why_not
from tokenweir.core.hold import Amounts, Denied, Granted, Hold, Subject, quotas_in
from tokenweir.core.identify import (
    Caller,
    Door,
    barred,
    credentials_in,
    entry_of,
    identify,
)
from tokenweir.core.outgoing import Admitted, Incoming, forward
from tokenweir.core.partition import as_told
from tokenweir.core.policy import OnLedgerFailure, Policy, Quota
from tokenweir.core.reading import read, read_encoded
from tokenweir.core.rejection import (
    BodyTooLarge,
    Draining,
    EnvoyOutdated,
    InternalFault,
    LedgerUnavailable,
    Malformed,
    PathNotMetered,
    PathTooLong,
    QuotaExhausted,
    QuotaFailure,
    Rejection,
    Unsatisfiable,
)
from tokenweir.core.request_coding import content_encoding, unreadable
from tokenweir.core.step import State, Step

Whose = TypeVar("Whose", QuotaFailure, Unsatisfiable)

# The doors behind which a body is read: it names a model.
_READ = frozenset({Door.METERED, Door.TOKEN_FREE})
# What a caller is told to wait when nobody knows how long the trouble lasts.
RETRY_MS = 1_000
# The client may choose the request's id; it is kept with the hold and the record.
MAX_ID_CHARS = 128
# Flag of an exchange that was admitted without an answer from the ledger.
LEDGER_OPEN = "ledger_open"


@dataclass(frozen=True, slots=True)
class Arrival:
    """
    What the shell knows when a request comes.

    Attributes:
        policy: The snapshot that the exchange keeps.
        hold_id: Fresh and unique.
        draining: This processor takes no new exchanges.
        rendered: Digests of what Envoy's configuration was made from (see
            `Policy.rendering`); None: it did not say.
    """

    policy: Policy
    hold_id: str
    draining: bool = False
    rendered: frozenset[str] | None = None


class RequestSide:
    """
    What is known of a request, and the actions of its states.

    Attributes:
        head: As it came.
        encoding: Of its body; ``""``: none.
        hold: What was asked for, or None before that.
        rejection: Why the caller was turned away, or None.
        shadowed: Quotas in shadow mode that would have refused.
    """

    def __init__(self, arrival: Arrival, head: RequestHead, now_ms: int) -> None:
        self.head = head
        self.hold: Hold | None = None
        self.rejection: Rejection | None = None
        self.shadowed: tuple[QuotaFailure, ...] = ()
        self._policy: Policy = arrival.policy
        self._arrival = arrival
        self._started_ms = now_ms
        self.encoding = content_encoding(head.headers)
        self._entry = entry_of(head)
        self._caller: Caller | None = None
        self._plan: Plan | None = None
        self._request: ModelRequest | None = None
        self._attempt = Attempt("")
        self._counted = NOT_COUNTED
        self._now_ms = now_ms
        self._turned = False
        self._tries = 0
        self._body = RequestBody(b"")
        self._exhausted_by: QuotaExhausted | None = None

    @property
    def subject(self) -> Subject:
        """The labels as far as they are known; parts not reached are ``""``."""
        plan, caller, request = self._plan, self._caller, self._request
        subject = plan.subject if plan else None
        if subject is None:
            subject = Subject(
                tenant=caller.tenant.name if caller else "",
                key_id=caller.key.id if caller else "",
                user="",
                route=self._entry.route,
                model=request.model if request else "",
                provider="",
            )
        return replace(
            subject,
            request_id=header_value(self.head.headers, "x-request-id")[:MAX_ID_CHARS],
            policy=self._policy.digest,
        )

    @property
    def quotas(self) -> tuple[str, ...]:
        """Ids of the quotas that apply, shadow ones too."""
        return quotas_in(self._plan.parts) if self._plan else ()

    # === what the table calls ==================================================

    def identify(self, _: Event) -> Step:
        """Tell who calls, and by which door; ask for the body where there is one."""
        caller = self._who_calls()
        if not isinstance(caller, Caller):
            return self._reject(caller)
        self._caller = caller
        why = barred(caller, self._entry, self._now_ms)
        if why is not None:
            return self._reject(why)
        if self._entry.door in _READ:
            return self._expect_body()
        if self.head.ended or self._entry.door in (Door.UNKNOWN, Door.LOOKALIKE):
            return self._admit_unread()
        return State.AWAITING_BODY, [AwaitBody()]

    def read_body(self, event: Event) -> Step:
        """Read the body by the door's dialect; at other doors there may be none."""
        assert isinstance(event, RequestBody)
        if len(event.body) > self._policy.body_limit_bytes:
            return self._reject(BodyTooLarge(self._policy.body_limit_bytes))
        if self._entry.door not in _READ:
            if event.body:
                return self._reject(PathNotMetered(self._entry.path))
            return self._admit_unread()
        event = event if event.read else self.read_ahead(event)
        request = event.read
        if isinstance(request, BodyTooLarge):
            return self._reject(request)
        if isinstance(request, MalformedRequestError):
            return self._reject(Malformed(request.message, request.param))
        assert request is not None
        self._request, self._body = request, event
        self._attempt = Attempt(request.model)
        return self._admit_read()

    def read_ahead(self, event: RequestBody) -> RequestBody:
        """Return *event* with its body read. It changes nothing, so any thread may."""
        is_read = self._entry.door in _READ
        if not is_read or len(event.body) > self._policy.body_limit_bytes:
            return event
        assert self._caller is not None
        tenant = self._caller.tenant.name
        event = read_encoded(event, self.encoding, self._policy.body_limit_bytes)
        if event.read:
            return event
        return read(event, self._entry, self._policy.audit, tenant)

    def reserve(self, event: Event) -> Step:
        """Ask for the worst case, now that the input is known; or try the next model."""
        assert isinstance(event, Counted)
        self._counted = event
        is_unfit = self._exhausted_by and not isinstance(self._demand(), Amounts)
        if is_unfit and self._can_go_on(with_next_model(self._attempt)):
            return self._estimate()
        return self._reserve()

    def reserve_anew(self, event: Event) -> Step:
        """Ask again, with the windows of the ledger's present."""
        assert isinstance(event, WindowsTurned)
        if self._turned or self._request is None:
            # Clocks that differ twice in a moment are no clocks. And what nobody read
            # has no budget.
            return self._reject(InternalFault(RETRY_MS))
        self._turned, self._now_ms = True, event.now_ms
        why = self._plan_attempt()
        return self._reserve() if why is None else self._reject(why)

    def forward(self, event: Event) -> Step:
        """Let the request go, with its ticket."""
        assert isinstance(event, Reserved)
        self.shadowed = event.granted.shadowed
        assert self.hold is not None
        self.hold = replace(self.hold, lease=event.granted.lease)
        return State.FORWARDED, [self._forward(event.granted, ())]

    def refuse(self, event: Event) -> Step:
        """Try a cheaper model if the policy says so, else tell the caller why not."""
        assert isinstance(event, Refused)
        assert self._caller is not None
        self.shadowed = event.denied.shadowed
        assert self._plan is not None
        if not event.denied.failures:
            # Only a hold that was cancelled before it was made is denied so.
            return self._reject(InternalFault(RETRY_MS))
        quotas = {quota.id: quota for quota in self._caller.quotas}
        assert self.hold is not None
        self._exhausted_by = why = self._exhausted(event.denied, quotas)
        before = self._attempt.model
        attempt = next_attempt(self._attempt, event.denied.failures, quotas)
        all_yield = {each.quota for each in why.failures} <= self._plan.yielding
        if not self._can_go_on(attempt):
            return self._reject(never_held(why) if all_yield else why)
        # Another model counts in another way.
        return self._estimate() if self._attempt.model != before else self._reserve()

    def do_without_ledger(self, _: Event) -> Step:
        """Refuse or admit, as the quotas say; the reserve may have been applied."""
        assert self._plan is not None
        if self._plan.on_ledger_failure is OnLedgerFailure.OPEN:
            flags = (LEDGER_OPEN,)
            return State.FORWARDED, [self._forward(Granted(""), flags)]
        state, commands = self._reject(LedgerUnavailable(RETRY_MS))
        return state, [*commands, *self._cancel()]

    def give_up(self, _: Event) -> Step:
        """Answer now, before Envoy stops waiting."""
        return self._reject(InternalFault(RETRY_MS))

    def give_up_reserving(self, _: Event) -> Step:
        """Answer now; what becomes of the reserve is seen later."""
        _state, commands = self._reject(InternalFault(RETRY_MS))
        return State.ABANDONED, commands

    def give_back(self, _: Event) -> Step:
        """Return what was granted too late to be of use."""
        return State.DONE, [*self._cancel()]

    # === steps that several of them share ======================================

    def _told(self, why: Whose) -> Whose:
        """Return *why* as the caller is told it: by the user's id that they sent."""
        subject = self.subject
        partition = as_told(why.partition, subject.tenant, subject.user)
        return replace(why, partition=partition)

    def _reject(self, why: Rejection) -> Step:
        self.rejection = why
        return State.DONE, [Reject(why, self._entry.errors.route)]

    def _who_calls(self) -> Caller | Rejection:
        if self._arrival.draining:
            return Draining(RETRY_MS)
        if self._entry.door is Door.TOO_LONG:
            return PathTooLong()
        return identify(self._policy, credentials_in(self.head, self._entry))

    def _expect_body(self) -> Step:
        why = unreadable(self.head)
        return self._reject(why) if why else (State.AWAITING_BODY, [AwaitBody()])

    def _admit_unread(self) -> Step:
        assert self._caller is not None
        plan = admission.plan_unread(self._policy, self._caller, self._entry)
        why = self._take(plan)
        if why is not None:
            return self._reject(why)
        return self._ask_for(Amounts(1, 0, 0))

    def _admit_read(self) -> Step:
        why = self._plan_attempt()
        if why is not None:
            return self._reject(why)
        if self._entry.door is Door.TOKEN_FREE:
            return self._ask_for(Amounts(1, 0, 0))
        return self._estimate()

    def _take(self, plan: Plan | Rejection) -> Rejection | None:
        """Go by *plan* from now on, or return why that can't be."""
        if not isinstance(plan, Plan):
            return plan
        provider, rendered = plan.target.provider, self._arrival.rendered
        if rendered is not None and provider.digest not in rendered:
            return EnvoyOutdated(RETRY_MS)
        self._plan = plan
        return None

    def _plan_attempt(self) -> Rejection | None:
        """Plan what is tried now, or return why that can't be."""
        assert self._caller is not None
        assert self._request is not None
        return self._take(
            admission.plan_metered(
                self._policy,
                self._caller,
                self._entry,
                self._request,
                self._attempt,
                self._now_ms,
            )
        )

    def _can_go_on(self, attempt: Attempt | None) -> bool:
        """Go by the first of the attempts from *attempt* on that can be planned."""
        while attempt is not None:
            self._attempt = attempt
            if self._plan_attempt() is None:
                return True
            attempt = with_next_model(attempt)
        return False

    def _estimate(self) -> Step:
        assert self._plan is not None
        assert self._request is not None
        asked = count_prompt(self._plan.target, self.subject, self._request.prompt)
        return State.ESTIMATING, [asked]

    def _reserve(self) -> Step:
        demand = self._demand()
        if isinstance(demand, Amounts):
            return self._ask_for(demand)
        return self._reject(why_not(demand, self._exhausted_by))

    def _demand(self) -> Amounts | Rejection:
        """Return the worst case, or why that can't be reserved of this model."""
        assert self._plan is not None
        assert self._request is not None
        tokens = self._counted.tokens
        ceiling = admission.output_ceiling(self._plan, self._request, tokens)
        amounts = Amounts(1, tokens, ceiling)
        priced = admission.priced(self._plan, self._request, amounts, self._now_ms)
        if not isinstance(priced, Amounts):
            return priced
        never = admission.unsatisfiable(self._plan, priced)
        return self._told(never) if never else priced

    def _exhausted(self, denied: Denied, quotas: Mapping[str, Quota]) -> QuotaExhausted:
        assert self.hold is not None
        why = exhausted(self.hold, denied, quotas, self._now_ms)
        return replace(why, failures=tuple(map(self._told, why.failures)))

    def _ask_for(self, amounts: Amounts) -> Step:
        assert self._plan is not None
        # A hold that was denied may have left a tombstone: each try has its own id.
        suffix = f".{self._tries}" if self._tries else ""
        self._tries += 1
        self.hold = Hold(
            self._arrival.hold_id + suffix,
            self._plan.parts,
            amounts,
            self.subject,
            admission.output_nanousd(self._plan.price, self._now_ms),
        )
        return State.RESERVING, [Reserve(self.hold)]

    def _cancel(self) -> list[Cancel]:
        assert self.hold is not None
        return [Cancel(self.hold)]

    def _forward(self, granted: Granted, flags: tuple[str, ...]) -> Forward:
        assert self._plan is not None
        assert self.hold is not None
        incoming = Incoming(
            self.head, self._entry, self._started_ms, self._request, self._body
        )
        told = (self._policy, self._plan, self.hold, granted, flags)
        return forward(incoming, Admitted(*told, self._counted))
