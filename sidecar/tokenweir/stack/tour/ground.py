"""
Which stack is toured, and with what.

Rule: nothing is spent unawares. Only a stack that has announced its own mock provider
is toured without a word; anybody else's provider wants money.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tokenweir.config.load import load_policy
from tokenweir.core.errors import TokenweirError
from tokenweir.core.policy import Model, Policy
from tokenweir.stack.announcement import Announcement
from tokenweir.stack.demo import OPENAI_MODEL, TOUR_KEY
from tokenweir.stack.settings import HOST

DIALECT = "openai"
# What the calls of a tour may use together, unless the limit that they hit is larger.
CALLS = 8


class GroundError(TokenweirError):
    """There is nothing to tour. The text says what to do."""


@dataclass(frozen=True, slots=True)
class Asked:
    """
    What the user has said; ``None``: nothing.

    Attributes:
        url: Of the gateway.
        admin: Of the processor's admin port.
        ledger: URL of the ledger.
        key: An API key of the policy.
        policy: The policy file.
        model: Who is asked.
        may_spend: The provider may be one that wants money.
    """

    url: str | None = None
    admin: str | None = None
    ledger: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    policy: Path | None = None
    model: str | None = None
    may_spend: bool = False


@dataclass(frozen=True, slots=True)
class Ground:
    """
    What is toured.

    Attributes:
        url: Of the gateway, without a slash at the end.
        admin: Of the processor's admin port; None: it is not known.
        ledger: URL of the ledger. May hold a password.
        key: The API key.
        shown_key: The same as a reader is told it.
        policy: What holds there.
        tenant: Whose key it is.
        model: Who is asked.
        is_mock: The provider is the stack's own mock.
    """

    url: str
    admin: str | None
    ledger: str = field(repr=False)
    key: str = field(repr=False)
    shown_key: str
    policy: Policy
    tenant: str
    model: str
    is_mock: bool


def ground(
    asked: Asked, found: Sequence[Announcement], env: Mapping[str, str]
) -> Ground:
    """
    Return what to tour.

    Args:
        asked: What the user has said.
        found: The stacks that run on this machine.
        env: The user's environment.

    Raises:
        GroundError: Something is missing, or money might be spent.
        PolicyError: Of the policy.
    """
    stack = _stack(asked, found)
    policy = load_policy(policy_file(asked, found), env, credentials=False)
    model = _model(asked.model, policy)
    is_mock = _is_mock(policy, model, stack)
    if not is_mock and not asked.may_spend:
        raise GroundError(_spending(policy, model))
    key = asked.key or (TOUR_KEY if is_mock else None)
    if key is None and policy.single_tenant is None:
        raise GroundError(
            "Calls need a key of the policy. Say where one is: --key env:NAME or "
            "--key file:PATH."
        )
    return Ground(
        url=_url(asked, stack),
        admin=asked.admin or (stack.admin if stack else None),
        ledger=_ledger(asked, stack),
        key=key or "any",
        shown_key=TOUR_KEY if key == TOUR_KEY else "<the key that you gave>",
        policy=policy,
        tenant=_tenant(policy, key),
        # Of a family the policy knows the beginning only.
        model=asked.model or model.name,
        is_mock=is_mock,
    )


def _stack(asked: Asked, found: Sequence[Announcement]) -> Announcement | None:
    if asked.url is not None:
        same = [told for told in found if told.url == _base(asked.url)]
        return same[0] if same else None
    if len(found) > 1:
        urls = "".join(f"\n  --url {told.url}" for told in found)
        raise GroundError(f"More than one `tokenweir up` runs here. Say which:{urls}")
    if not found:
        raise GroundError(
            "No `tokenweir up` runs here. Start one in another terminal, wait until it "
            "says how to call it, and come back:\n\n  tokenweir up\n\n"
            "(In a clone: make up, and make tour.) A gateway elsewhere is named by --url."
        )
    return found[0]


def _base(url: str) -> str:
    """Return *url* as stacks announce theirs: SDKs have it with a path."""
    base = url.rstrip("/").removesuffix("/v1")
    return base.replace("://localhost:", f"://{HOST}:")


def _url(asked: Asked, stack: Announcement | None) -> str:
    if asked.url is not None:
        return _base(asked.url)
    assert stack is not None
    return stack.url


def policy_file(asked: Asked, found: Sequence[Announcement]) -> Path:
    """Return where the policy is that holds there. Raises: GroundError."""
    if asked.policy is not None:
        return asked.policy
    stack = _stack(asked, found)
    if stack is None:
        raise GroundError(
            "--url: no `tokenweir up` of yours runs there, so it is not known what holds "
            "there. Name its policy file too: --policy FILE."
        )
    return Path(stack.policy)


def _ledger(asked: Asked, stack: Announcement | None) -> str:
    url = asked.ledger or (stack.ledger if stack else "")
    if not url:
        raise GroundError(
            "The ledger is not `tokenweir up`'s own. Say where it is: --ledger URL, or "
            "--ledger env:NAME of a variable with one."
        )
    return url


def _model(name: str | None, policy: Policy) -> Model:
    spoken = [
        model
        for model in policy.models.values()
        if policy.providers[model.provider].dialect == DIALECT
    ]
    if name is not None:
        model = policy.model(name)
        if model is None or policy.providers[model.provider].dialect != DIALECT:
            known = ", ".join(each.name for each in spoken) or "none by its full name"
            raise GroundError(
                f"--model: the tour speaks OpenAI's chat completions, and the policy "
                f"has no such model for them. It has: {known}."
            )
        return model
    if not spoken:
        raise GroundError(
            "The tour speaks OpenAI's chat completions, and the policy names no model "
            "for them. Say which one to ask: --model NAME."
        )
    preferred = [model for model in spoken if model.name == OPENAI_MODEL]
    return (preferred or spoken)[0]


def _is_mock(policy: Policy, model: Model, stack: Announcement | None) -> bool:
    provider = policy.providers[model.provider]
    return stack is not None and (provider.host, provider.port) == (
        HOST,
        stack.mock_port,
    )


def _spending(policy: Policy, model: Model) -> str:
    provider = policy.providers[model.provider]
    return (
        f"A tour would ask {model.name} of {provider.name} ({provider.host}) about "
        f"{CALLS} times, and that is not the mock provider of a `tokenweir up`: it may "
        "cost money. If that is all right: --yes-spend. For a tour that costs nothing, "
        "end that stack and run `tokenweir up` without --policy."
    )


def _tenant(policy: Policy, key: str | None) -> str:
    if policy.single_tenant is not None:
        return policy.single_tenant
    digest = hashlib.sha256((key or "").encode()).hexdigest()
    if digest in policy.keys:
        return policy.keys[digest].tenant
    if key == TOUR_KEY:
        raise GroundError(
            "The policy in use has no tour key any more. Start `tokenweir up` again "
            "without --policy, or give a key of the policy: --key env:NAME."
        )
    raise GroundError(
        "--key: the policy file has no such key (it may have been issued through the "
        "ledger). Give one of the file: --key env:NAME or --key file:PATH."
    )
