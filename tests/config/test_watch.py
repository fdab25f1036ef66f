"""A policy that changes is followed, and one that breaks is not."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.config.policies import CANARY, ENV, SMALL, edited, write
from tokenweir.config.load import load_policy
from tokenweir.config.watch import PolicyWatcher
from tokenweir.core.errors import PolicyError
from tokenweir.core.policy import Policy, Secret

DEADLINE_S = 20.0

OTHER = edited("requests_per_minute: 600", "requests_per_minute: 700")
BAD = edited("requests_per_minute: 600", "requests_per_minute: 0")
WORSE = edited("requests_per_minute: 600", "requests_per_minute: none")


class Seen:
    """What a watcher does, in order."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.more = asyncio.Event()
        self.policies: list[Policy] = []
        self.broken = False

    def on_change(self, policy: Policy) -> None:
        """Take a new snapshot."""
        if self.broken:
            raise RuntimeError("no")
        self.policies.append(policy)
        rate = policy.tenants["acme"].quotas[0].rate if policy.tenants else 0
        self.note(f"changed {rate}")

    def policy_loaded(self, digest: str) -> None:
        """Note that one is in use."""
        self.note(f"loaded {len(digest)}")

    def policy_refused(self, problems: tuple[str, ...]) -> None:
        """Note what was wrong."""
        self.note(f"refused {problems[0]}")

    def fault(self, where: str, error: BaseException) -> None:
        """Note that something of ours broke."""
        self.note(f"fault {where} {type(error).__name__}")

    def note(self, what: str) -> None:
        """Add to what has happened."""
        self.happened.append(what)
        self.more.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until what has happened fulfils *condition*."""
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                self.more.clear()
                await self.more.wait()

    def took(self) -> list[str]:
        """Return what happened since the last call."""
        happened, self.happened = self.happened, []
        return happened


@pytest.fixture
def seen() -> Seen:
    """A record of what a watcher does."""
    return Seen()


async def watcher_of(path: pathlib.Path, seen: Seen) -> PolicyWatcher:
    """Return a watcher that knows the policy in *path*, and is moved on by hand."""
    watcher = PolicyWatcher(path, ENV, seen.on_change, seen, interval_s=3600)
    watcher.start(load_policy(path, ENV))
    await turns(watcher, 2)
    assert seen.took() == []
    return watcher


async def turns(watcher: PolicyWatcher, count: int) -> None:
    """Let *count* intervals pass."""
    for _ in range(count):
        await watcher._look(asked=False)


REFUSED = (
    "refused tenants.acme.quotas.0.requests_per_minute: must be at least 1 (line 13)"
)


async def test_what_can_not_be_prepared_changes_nothing(
    tmp_path: pathlib.Path, seen: Seen
) -> None:
    """What must be done before a policy is in force is done first, or it is refused."""
    problems: list[str] = []
    prepared: list[Policy] = []

    async def prepare(policy: Policy) -> None:
        assert seen.happened == []
        prepared.append(policy)
        if problems:
            raise PolicyError(problems)

    path = write(tmp_path, SMALL)
    watcher = PolicyWatcher(
        path, ENV, seen.on_change, seen, interval_s=3600, prepare=prepare
    )
    watcher.start(load_policy(path, ENV))
    problems.append("envoy: no")
    write(tmp_path, OTHER)
    await turns(watcher, 3)
    assert seen.took() == ["refused envoy: no"]
    problems.clear()
    await watcher._look(asked=True)
    assert seen.took() == ["changed 700", "loaded 12"]
    await watcher._look(asked=True)

    assert seen.took() == ["loaded 12"]
    assert len(prepared) == 2
    await watcher.stop()


async def test_a_change_is_acted_on_when_it_has_settled(
    tmp_path: pathlib.Path, seen: Seen
) -> None:
    """Two reads in a row have to find the same; then it is once handed on."""
    watcher = await watcher_of(write(tmp_path, SMALL), seen)

    write(tmp_path, OTHER)
    await turns(watcher, 1)
    assert seen.took() == []
    await turns(watcher, 1)
    assert seen.took() == ["changed 700", "loaded 12"]
    await turns(watcher, 3)
    assert seen.took() == []
    await watcher.stop()


async def test_a_file_that_is_being_written_is_left_alone(
    tmp_path: pathlib.Path, seen: Seen
) -> None:
    """Neither a half that is bad nor one that would do is taken for the whole."""
    watcher = await watcher_of(write(tmp_path, SMALL), seen)
    other = OTHER + "  late: {quotas: [{concurrency: 5}]}\n"

    for end in (0, 10, len(OTHER), len(OTHER) + 20):
        write(tmp_path, other[:end])
        await turns(watcher, 1)
    assert seen.took() == []
    write(tmp_path, other)
    await turns(watcher, 2)
    assert seen.took() == ["changed 700", "loaded 12"]
    assert seen.policies[-1].tenants.keys() == {"late", "acme"}
    await watcher.stop()


async def test_a_change_that_is_taken_back(tmp_path: pathlib.Path, seen: Seen) -> None:
    """What was there before the last look counts for nothing any more."""
    watcher = await watcher_of(write(tmp_path, SMALL), seen)

    for text in (OTHER, SMALL, OTHER):
        write(tmp_path, text)
        await turns(watcher, 1)
    assert seen.took() == []
    await watcher.stop()


async def test_bad_content_is_told_once(tmp_path: pathlib.Path, seen: Seen) -> None:
    """The last good policy stays; each bad content is told, but not again and again."""
    watcher = await watcher_of(write(tmp_path, SMALL), seen)

    write(tmp_path, BAD)
    await turns(watcher, 5)
    assert seen.took() == [REFUSED]
    write(tmp_path, WORSE)
    await turns(watcher, 5)
    assert len(seen.took()) == 1
    write(tmp_path, OTHER)
    await turns(watcher, 5)
    assert seen.took() == ["changed 700", "loaded 12"]
    await watcher.stop()


async def test_back_to_what_is_in_use(tmp_path: pathlib.Path, seen: Seen) -> None:
    """After a bad one, the policy that was in use all along is told to be good."""
    watcher = await watcher_of(write(tmp_path, SMALL), seen)

    write(tmp_path, BAD)
    await turns(watcher, 2)
    write(tmp_path, SMALL)
    await turns(watcher, 2)
    assert seen.took() == [REFUSED, "loaded 12"]
    assert seen.policies == []
    await watcher.stop()


async def test_a_file_that_goes_away(tmp_path: pathlib.Path, seen: Seen) -> None:
    """It is told, and noticed when it is back."""
    path = write(tmp_path, SMALL)
    watcher = await watcher_of(path, seen)

    path.unlink()
    await turns(watcher, 3)
    assert seen.took() == ["refused policy: can't be read: no such file or directory"]
    write(tmp_path, OTHER)
    await turns(watcher, 2)
    assert seen.took() == ["changed 700", "loaded 12"]
    await watcher.stop()


async def test_a_file_that_is_replaced(tmp_path: pathlib.Path, seen: Seen) -> None:
    """Content decides: a new file that says the same is no change."""
    path = write(tmp_path, SMALL)
    watcher = await watcher_of(path, seen)

    for text, happened in ((SMALL, []), (OTHER, ["changed 700", "loaded 12"])):
        new = tmp_path / "new.yaml"
        new.write_text(text)
        new.replace(path)
        await turns(watcher, 3)
        assert seen.took() == happened
    await watcher.stop()


async def test_a_config_map_is_swapped(tmp_path: pathlib.Path, seen: Seen) -> None:
    """Kubernetes swaps a symlink above the file: `..data` leads to another folder."""
    for name, text in (("..1", SMALL), ("..2", OTHER)):
        (tmp_path / name).mkdir()
        write(tmp_path / name, text)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "policy.yaml").symlink_to("..data/policy.yaml")
    watcher = await watcher_of(tmp_path / "policy.yaml", seen)

    (tmp_path / "..data_tmp").symlink_to("..2")
    (tmp_path / "..data_tmp").replace(tmp_path / "..data")
    await turns(watcher, 2)
    assert seen.took() == ["changed 700", "loaded 12"]
    await watcher.stop()


async def test_credentials_are_followed(tmp_path: pathlib.Path, seen: Seen) -> None:
    """A key that is rotated makes a new snapshot; one that is gone makes none."""
    key = tmp_path / "key"
    key.write_text("sk-1")
    text = edited("env:OPENAI_API_KEY", f"file:{key}")
    watcher = await watcher_of(write(tmp_path, text), seen)

    key.write_text("sk-2")
    await turns(watcher, 2)
    assert seen.took() == ["changed 600", "loaded 12"]
    assert seen.policies[-1].providers["openai"].credential == Secret("sk-2")
    key.unlink()
    await turns(watcher, 3)
    assert len(seen.took()) == 1
    key.write_text("sk-3")
    await turns(watcher, 2)
    assert seen.took() == ["changed 600", "loaded 12"]
    await watcher.stop()


async def test_other_certificates(tmp_path: pathlib.Path, seen: Seen) -> None:
    """Other certificates in a file are handed on; the same again, or none, are not."""
    ca_file = tmp_path / "ca.pem"
    ca_file.write_text("-----BEGIN CERTIFICATE-----1")
    text = edited("dialect: anthropic", f"dialect: anthropic, ca_file: {ca_file}")
    watcher = await watcher_of(write(tmp_path, text), seen)

    ca_file.write_text("none")
    await turns(watcher, 2)
    ca_file.write_text("-----BEGIN CERTIFICATE-----1")
    await turns(watcher, 2)
    refused, loaded = seen.took()
    assert refused.startswith("refused providers.claude.ca_file: holds no")
    assert loaded == "loaded 12"
    ca_file.write_text("-----BEGIN CERTIFICATE-----3")
    await turns(watcher, 2)
    assert seen.took() == ["changed 600", "loaded 12"]
    await watcher.stop()


async def test_a_policy_that_nobody_can_take(
    tmp_path: pathlib.Path, seen: Seen
) -> None:
    """A fault in whoever takes it is told, and the watcher goes on."""
    path = write(tmp_path, SMALL)
    watcher = PolicyWatcher(path, ENV, seen.on_change, seen, interval_s=0.005)
    watcher.start(load_policy(path, ENV))
    seen.broken = True
    write(tmp_path, OTHER)
    await seen.until(lambda: seen.happened == ["fault policy_watcher RuntimeError"])

    seen.broken = False
    write(tmp_path, BAD)
    await seen.until(lambda: len(seen.happened) == 2)
    write(tmp_path, OTHER)
    await seen.until(lambda: "changed 700" in seen.happened)
    await watcher.stop()


async def test_an_operator_asks(tmp_path: pathlib.Path, seen: Seen) -> None:
    """SIGHUP reads at once, changed or not, and always has an answer."""
    path = write(tmp_path, SMALL)
    watcher = PolicyWatcher(path, ENV, seen.on_change, seen, interval_s=3600)
    watcher.start(load_policy(path, ENV))

    for text, happened in (
        (SMALL, ["loaded 12"]),
        (OTHER, ["changed 700", "loaded 12"]),
        (BAD, [REFUSED]),
        (BAD, [REFUSED]),
        (OTHER, ["loaded 12"]),
    ):
        write(tmp_path, text)
        watcher.reload()
        await seen.until(lambda: bool(seen.happened) and seen.happened[-1][0] in "lr")
        assert seen.took() == happened
    await watcher.stop()


async def test_without_a_policy_the_first_one_is_handed_on(
    tmp_path: pathlib.Path, seen: Seen
) -> None:
    """Who has none yet is given what is there."""
    watcher = PolicyWatcher(
        write(tmp_path, SMALL), ENV, seen.on_change, seen, interval_s=0.005
    )
    watcher.start()
    await seen.until(lambda: len(seen.happened) == 2)

    assert seen.took() == ["changed 600", "loaded 12"]
    await watcher.stop()


async def test_a_change_before_the_start_is_not_missed(
    tmp_path: pathlib.Path, seen: Seen
) -> None:
    """What came between the first load and the start counts as a change."""
    path = write(tmp_path, SMALL)
    policy = load_policy(path, ENV)
    write(tmp_path, OTHER)
    watcher = PolicyWatcher(path, ENV, seen.on_change, seen, interval_s=0.005)
    watcher.start(policy)
    await seen.until(lambda: len(seen.happened) == 2)

    assert seen.took() == ["changed 700", "loaded 12"]
    await watcher.stop()


async def test_after_the_stop_nothing_happens(
    tmp_path: pathlib.Path, seen: Seen
) -> None:
    """The task is gone, also if it was never begun or is stopped twice."""
    path = write(tmp_path, SMALL)
    watcher = PolicyWatcher(path, ENV, seen.on_change, seen, interval_s=0.005)
    await watcher.stop()
    watcher.start()
    await watcher.stop()
    await watcher.stop()

    assert len(asyncio.all_tasks()) == 1
    assert seen.took() == []


@contextmanager
def unreadable(path: pathlib.Path) -> Iterator[None]:
    """Make *path* a link to itself, which nobody can follow."""
    content = path.read_bytes()
    path.unlink()
    path.symlink_to(path)
    yield
    path.unlink()
    path.write_bytes(content)


async def test_a_link_that_leads_nowhere(tmp_path: pathlib.Path, seen: Seen) -> None:
    """It is a policy that can't be read, like any other; and no secret is told."""
    path = write(tmp_path, SMALL)
    watcher = await watcher_of(path, seen)

    with unreadable(path):
        await turns(watcher, 2)
    await turns(watcher, 2)
    happened = seen.took()

    assert happened[0].startswith("refused policy: can't be read: ")
    assert happened[1:] == ["loaded 12"]
    assert CANARY not in "".join(happened)
    await watcher.stop()
