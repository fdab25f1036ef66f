from typing import get_args

import pytest

from tests.examples import spent
from tokenweir.core.policy import Axis, KeyEnd
from tokenweir.core.reason import ENVOY_REASONS, Reason, reason_of
from tokenweir.core.rejection import (
    BodyTooLarge,
    Draining,
    EncodingNotMetered,
    EndedKey,
    EnvoyOutdated,
    InternalFault,
    LedgerUnavailable,
    Malformed,
    ModelNotAllowed,
    ModelUnpriced,
    PathNotMetered,
    PathTooLong,
    QuotaExhausted,
    Rejection,
    RouteNotAllowed,
    UnknownKey,
    Unsatisfiable,
)

NAMES: dict[Rejection, str] = {
    QuotaExhausted("acme", ()): "quota_exhausted",
    QuotaExhausted("acme", (spent("frugal.block"),)): "budget_exhausted",
    Unsatisfiable("q", Axis.TOKENS, "tenant=acme", 1, 2): "request_exceeds_limit",
    PathTooLong(): "path_too_long",
    Malformed("no"): "malformed_request",
    UnknownKey("no"): "unknown_key",
    EndedKey(KeyEnd.EXPIRED, 1): "expired_key",
    EndedKey(KeyEnd.ROTATED, 1): "rotated_key",
    EndedKey(KeyEnd.REVOKED, 1): "revoked_key",
    RouteNotAllowed("messages"): "route_not_allowed",
    ModelNotAllowed("m"): "model_not_allowed",
    ModelUnpriced("m", "model"): "model_unpriced",
    PathNotMetered("/v1/x"): "path_not_metered",
    EncodingNotMetered("snappy"): "encoding_not_metered",
    BodyTooLarge(1): "body_too_large",
    LedgerUnavailable(1): "ledger_unavailable",
    Draining(1): "draining",
    EnvoyOutdated(1): "envoy_outdated",
    InternalFault(1): "internal_fault",
}


@pytest.mark.parametrize(("rejection", "name"), NAMES.items())
def test_name(rejection: Rejection, name: str) -> None:
    """A refusal's name is part of the client contract and does not change."""
    assert reason_of(rejection) == name


def test_names_are_one_to_one() -> None:
    """Every rejection has a name of its own; what has none is said by Envoy."""
    assert {type(rejection) for rejection in NAMES} == set(get_args(Rejection))
    assert sorted(NAMES.values()) == sorted(set(Reason) - ENVOY_REASONS)
