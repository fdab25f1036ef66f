from tests.extproc.rejections import RPM, TPM
from tokenweir.core.policy import Axis
from tokenweir.core.rejection import ModelNotAllowed, QuotaExhausted, Unsatisfiable
from tokenweir.core.tally import Tallied, tallied_in, tally_of


def test_a_refusal_is_counted_once_by_the_worst_quota() -> None:
    """
    However many quotas failed, sums of refusals are numbers of exchanges.
    """
    figures = tally_of(QuotaExhausted("acme", (TPM, RPM)), (), ())

    assert figures == {"refused_acme.tokens_per_minute": 1}


def test_what_never_fits_is_refused_by_its_quota() -> None:
    """
    A request that is larger than a limit is that limit's refusal.
    """
    rejection = Unsatisfiable("acme.tpm", Axis.TOKENS, "tenant=acme", 10, 11)

    assert tally_of(rejection, (), ()) == {"refused_acme.tpm": 1}


def test_other_refusals_are_counted_by_reason() -> None:
    """
    No quota's id can pretend to be a reason, or the other way round.
    """
    assert tally_of(ModelNotAllowed("m"), (), ()) == {"refused:model_not_allowed": 1}


def test_matches_are_counted_whatever_was_decided() -> None:
    """
    Quotas that applied, and those in shadow mode that would have refused.
    """
    figures = tally_of(None, (TPM,), ("a", "b"))

    assert figures == {
        "matched_a": 1,
        "matched_b": 1,
        "shadow_acme.tokens_per_minute": 1,
    }
    assert tally_of(None, (), ()) == {}


def test_sums_are_read_back_by_kind() -> None:
    """
    Whatever else is summed is left out, and each refusal is there once.
    """
    figures = {
        "exchanges": 9,
        "refused_a": 2,
        "refused_matched_b": 3,
        "refused:draining": 4,
        "shadow_a": 5,
        "matched_a": 6,
    }
    told = tallied_in(figures)

    assert told == Tallied(
        {"a": 2, "matched_b": 3}, {"draining": 4}, {"a": 5}, {"a": 6}
    )
    assert told.refusals == 9
    assert Tallied().refusals == 0
