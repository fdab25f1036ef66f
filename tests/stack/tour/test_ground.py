"""Which stack is toured, and that nothing is spent unawares."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tokenweir.core.errors import PolicyError
from tokenweir.stack.announcement import Announcement
from tokenweir.stack.demo import DEMO_KEY, OPENAI_MODEL, TOUR_KEY, demo_policy
from tokenweir.stack.tour.ground import Asked, Ground, GroundError, ground

MOCK_PORT = 4321
OWN = """\
version: 1
providers:
  openai: {base_url: "https://api.openai.com", dialect: openai, credential: "env:NONE"}
  anthropic: {base_url: "https://api.anthropic.com", dialect: anthropic}
models:
  o-1: {provider: openai}
  o-2: {provider: openai}
  claude-1: {provider: anthropic}
tenants:
  acme:
    keys:
      # Of the key sk-tokenweir-demo.
      - {id: ci, sha256: "73b1713fedc15a23e35d8840ff544bd6842f9a0dee7f2defbdb7dc3631aaa6ef"}
"""


def stack(
    folder: Path, text: str = "", mock_port: int | None = MOCK_PORT
) -> Announcement:
    """Return what a stack with the policy *text* (default: the demo's) tells."""
    path = folder / "policy.yaml"
    path.write_text(text or demo_policy(MOCK_PORT))
    return Announcement(
        "http://127.0.0.1:4000",
        "http://127.0.0.1:9090",
        str(path),
        "unix:///ledger.sock",
        mock_port,
    )


def found(folder: Path, asked: Asked, text: str = OWN) -> Ground:
    """Return the ground of a stack of one's own, with the policy *text*."""
    return ground(asked, [stack(folder, text, None)], {})


def test_the_demo_needs_no_word(tmp_path: Path) -> None:
    """Everything comes from the stack that runs, and its mock costs nothing."""
    told = stack(tmp_path)
    place = ground(Asked(), [told], {})

    assert (place.url, place.admin, place.ledger) == (told.url, told.admin, told.ledger)
    assert (place.key, place.shown_key) == (TOUR_KEY, TOUR_KEY)
    assert (place.tenant, place.model) == ("tour", OPENAI_MODEL)
    assert place.is_mock


def test_without_a_stack_it_is_told_how_to_start_one() -> None:
    """The command to run is in the text."""
    with pytest.raises(GroundError, match=r"\n\n  tokenweir up\n\n.*--url"):
        ground(Asked(), [], {})


def test_of_several_stacks_one_has_to_be_named(tmp_path: Path) -> None:
    """Each is listed as the option that chooses it; SDKs' form of a URL will do."""
    first = stack(tmp_path)
    second = replace(first, url="http://127.0.0.1:4100", admin="http://a")

    with pytest.raises(GroundError, match=r"--url http://127.0.0.1:4100"):
        ground(Asked(), [first, second], {})
    place = ground(Asked(url="http://localhost:4100/v1/"), [first, second], {})
    assert (place.url, place.admin) == (second.url, "http://a")


def test_what_was_said_holds(tmp_path: Path) -> None:
    """Options go before what the stack tells; a key that was given is not shown."""
    asked = Asked(
        admin="http://admin",
        ledger="redis://:CANARY@host",
        key=DEMO_KEY,
        model="gpt-4o",
    )
    place = ground(asked, [stack(tmp_path)], {})

    assert (place.admin, place.ledger) == ("http://admin", "redis://:CANARY@host")
    assert (place.key, place.tenant, place.model) == (DEMO_KEY, "demo", "gpt-4o")
    assert DEMO_KEY not in place.shown_key
    assert "CANARY" not in repr(place)


def test_a_real_provider_is_not_asked_unawares(tmp_path: Path) -> None:
    """Who would be asked is told, and what says that it is all right."""
    with pytest.raises(
        GroundError, match=r"o-1 of openai \(api.openai.com\).*cost"
    ) as no:
        found(tmp_path, Asked(key=DEMO_KEY))
    assert "--yes-spend" in str(no.value)

    place = found(tmp_path, Asked(key=DEMO_KEY, may_spend=True))
    assert (place.is_mock, place.model, place.tenant) == (False, "o-1", "acme")


def test_a_mock_s_policy_that_was_changed_is_looked_at_again(tmp_path: Path) -> None:
    """A demo in whose policy a real provider stands by now is no mock any more."""
    with pytest.raises(GroundError, match="--yes-spend"):
        ground(Asked(key=DEMO_KEY), [stack(tmp_path, OWN)], {})


def test_a_gateway_elsewhere_needs_more_words(tmp_path: Path) -> None:
    """Nothing is known of it but its URL: each thing that is missing is named."""
    url = "http://gateway:4000"
    policy = Path(stack(tmp_path, OWN).policy)

    with pytest.raises(GroundError, match="--policy FILE"):
        ground(Asked(url=url), [], {})
    asked = Asked(url=url, policy=policy, key=DEMO_KEY, may_spend=True)
    with pytest.raises(GroundError, match="--ledger URL"):
        ground(asked, [], {})
    place = ground(replace(asked, ledger="redis://host"), [], {})
    assert (place.url, place.admin, place.is_mock) == (url, None, False)


def test_a_key_is_needed_that_the_policy_has(tmp_path: Path) -> None:
    """None, or one that it does not know, is told with what to give."""
    with pytest.raises(GroundError, match="--key env:NAME"):
        found(tmp_path, Asked(may_spend=True))
    with pytest.raises(GroundError, match="no such key") as no:
        found(tmp_path, Asked(key="sk-CANARY", may_spend=True))
    assert "CANARY" not in str(no.value)


def test_a_demo_that_lost_its_tour_key_is_told(tmp_path: Path) -> None:
    """Whoever has edited the demo's policy reads what is missing."""
    text = demo_policy(MOCK_PORT).partition("  # Of `tokenweir tour`")[0]

    with pytest.raises(GroundError, match="no tour key any more"):
        ground(Asked(), [stack(tmp_path, text)], {})


def test_a_single_tenant_needs_no_key(tmp_path: Path) -> None:
    """Whatever is sent, it is that tenant."""
    place = found(tmp_path, Asked(may_spend=True), f"{OWN}single_tenant: acme\n")

    assert (place.tenant, place.key) == ("acme", "any")


@pytest.mark.parametrize("model", ["claude-1", "nobody"])
def test_a_model_has_to_speak_chat_completions(model: str, tmp_path: Path) -> None:
    """Those that do are listed."""
    with pytest.raises(GroundError, match=r"It has: o-1, o-2\."):
        found(tmp_path, Asked(model=model, may_spend=True))


def test_a_policy_without_a_named_model_needs_one(tmp_path: Path) -> None:
    """Of a family nobody knows the members; one can be named."""
    text = OWN.replace("  o-1: {provider: openai}\n", "").replace("o-2", "'o-*'")
    asked = Asked(key=DEMO_KEY, may_spend=True)

    with pytest.raises(GroundError, match="--model NAME"):
        found(tmp_path, asked, text.replace("'o-*'", "'*'"))
    place = found(tmp_path, replace(asked, model="o-9"), text)
    assert place.model == "o-9"


def test_a_broken_policy_is_told_as_everywhere(tmp_path: Path) -> None:
    """Its problems are those of `tokenweir check`."""
    with pytest.raises(PolicyError):
        found(tmp_path, Asked(), "version: 1\n")
