"""A policy is brought to an Envoy step by step, or not at all."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.envoyconf.certificates import Authority
from tests.envoyconf.gateway import policy_of, provider
from tests.envoyconf.test_xds import told_in
from tokenweir.core.errors import PolicyError
from tokenweir.core.policy import Policy
from tokenweir.envoyconf import envoy_admin, live, xds
from tokenweir.envoyconf.envoy_admin import EnvoyAdmin, Followed, Verdict
from tokenweir.envoyconf.live import (
    ROUTES_STAY_SECONDS,
    LiveEnvoy,
    live_envoy,
)
from tokenweir.envoyconf.settings import EnvoySettings
from tokenweir.envoyconf.xds import XdsRenderer
from tokenweir.envoyconf.xds_folder import XdsFolder

A, B = provider("a", 1), provider("b", 2)
MOVED = replace(A, port=3)
FIRST, SECOND = policy_of(A, B), policy_of(MOVED, B)


class Admin(EnvoyAdmin):
    """
    Says what a test wants.

    Attributes:
        verdicts: By file; without one it has applied what it was given.
        asked: The files, in the order in which it was asked about them.
    """

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))
        self.verdicts: dict[Followed, Verdict] = {}
        self.asked: list[Followed] = []

    def refusals(self, file: Followed) -> int | None:
        """Say that there were none."""
        del file
        return 0

    def verdict(self, file: Followed, version: str, refusals: int | None) -> Verdict:
        """Say it at once."""
        del version, refusals
        self.asked.append(file)
        return self.verdicts.get(file, Verdict.APPLIED)


class World:
    """The Envoy of a pod, with a folder, and a clock."""

    def __init__(self, path: Path) -> None:
        self.now_s = 1_000.0
        self.path = path
        self.admin = Admin()
        self.reason: str | None = None
        self.validated: list[Mapping[str, object]] = []
        self.envoy = self.worker()

    def worker(self, *, asks: bool = False, ca_file: str = "/ca") -> LiveEnvoy:
        """Return what another worker of the pod has of it; *asks*: somebody before."""
        settings = EnvoySettings(
            xds_dir=str(self.path), admin_socket="/a", ca_file=ca_file
        )
        return LiveEnvoy(
            XdsRenderer(settings),
            XdsFolder(self.path),
            self.admin,
            self._validate if asks else None,
            lambda: self.now_s,
        )

    def _validate(self, bootstrap: Mapping[str, object]) -> str | None:
        self.validated.append(bootstrap)
        return self.reason

    def files(self) -> dict[str, bytes]:
        """Return what is in the folder."""
        return {
            path.name: path.read_bytes()
            for path in self.path.glob("*.json")
            if path.name != "state.json"
        }

    def clusters(self) -> set[str]:
        """Return the names of the clusters."""
        found = XdsFolder(self.path).read_json(xds.CLUSTERS)["resources"]
        return {each["name"] for each in found}

    def routes(self) -> set[str]:
        """Return the names of the clusters that routes lead to."""
        [found] = XdsFolder(self.path).read_json(xds.ROUTES)["resources"]
        return xds.cluster_names(found)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a world in which an Envoy is on the first policy."""
    world = World(tmp_path / "xds")
    world.envoy.apply(FIRST)
    world.admin.asked.clear()
    return world


def test_the_beginning(world: World) -> None:
    """All files are there, and a second worker finds nothing to do."""
    world.envoy.begin(FIRST)
    before = world.files()
    other = world.worker()

    assert set(before) == {"bootstrap.json", "lds.json", "cds.json", "rds.json"}
    assert other.apply(FIRST) is None
    other.begin(FIRST)
    assert world.files() == before
    assert world.clusters() == world.routes() == {A.cluster, B.cluster}


def test_make_before_break(world: World) -> None:
    """Clusters come before routes, and what was there before stays beside them."""
    assert world.envoy.apply(SECOND) is Verdict.APPLIED

    assert world.admin.asked == [envoy_admin.CLUSTERS, envoy_admin.ROUTES]
    assert world.clusters() == world.routes() == {A.cluster, B.cluster, MOVED.cluster}
    assert world.envoy.apply(SECOND) is None


def test_what_changes_nothing(world: World) -> None:
    """A policy that is the same to Envoy touches no file; one of routes only those."""
    before = world.files()
    assert world.envoy.apply(replace(FIRST, digest="f" * 12)) is None
    assert world.files() == before
    assert world.envoy.apply(replace(FIRST, retries=9)) is Verdict.APPLIED

    assert world.admin.asked == [envoy_admin.ROUTES]
    changed = {name for name, text in world.files().items() if text != before[name]}
    assert changed == {"rds.json"}


@pytest.mark.parametrize("refused", [envoy_admin.CLUSTERS, envoy_admin.ROUTES])
def test_a_refusal(world: World, refused: Followed) -> None:
    """What Envoy refuses is taken back, all of it, and can be tried again."""
    before = world.files()
    world.admin.verdicts[refused] = Verdict.REFUSED
    with pytest.raises(PolicyError, match=r"envoy: has refused the new .ds\.json"):
        world.envoy.apply(SECOND)
    after = world.files()
    world.admin.verdicts.clear()

    assert after == before
    assert world.envoy.apply(SECOND) is Verdict.APPLIED
    assert MOVED.cluster in world.routes()


def test_asked_before(world: World) -> None:
    """What an Envoy that was asked before would refuse is not even written."""
    before = world.files()
    world.reason = "no such field"
    with pytest.raises(PolicyError, match="envoy: would refuse it: no such field"):
        world.worker(asks=True).apply(SECOND)

    assert world.files() == before
    assert "static_resources" in world.validated[-1]


def test_no_authorities(world: World) -> None:
    """Where Envoy is asked, it is on this machine: what it trusts must be there."""
    before = world.files()
    secure = provider("s", 443, scheme="https")
    with pytest.raises(PolicyError, match=r"envoy: there is no /no/such on this"):
        world.worker(asks=True, ca_file="/no/such").apply(policy_of(secure))

    assert world.files() == before


@pytest.mark.parametrize("verdict", [Verdict.UNKNOWN, Verdict.ABSENT])
def test_no_answer(world: World, verdict: Verdict) -> None:
    """An Envoy that says nothing gets the policy all the same, and that is told."""
    world.admin.verdicts[envoy_admin.CLUSTERS] = verdict

    assert world.envoy.apply(SECOND) is verdict
    assert MOVED.cluster in world.routes()


def test_certificates(world: World, tmp_path: Path) -> None:
    """Other certificates are another secret, and no other cluster; bad ones are none."""
    authority = Authority.create(tmp_path)
    ca_file = tmp_path / "ca.pem"
    ca_file.write_bytes(authority.file.read_bytes())
    secure = provider("s", 443, scheme="https", ca_file=str(ca_file), files_digest="1")
    world.envoy.apply(policy_of(secure))
    before = world.files()
    ca_file.write_bytes(Authority.create(tmp_path, "other").file.read_bytes())
    world.envoy.apply(policy_of(replace(secure, files_digest="2")))
    after = world.files()
    ca_file.write_text("-----BEGIN CERTIFICATE-----")
    with pytest.raises(PolicyError, match=r"providers\.s\.ca_file"):
        world.envoy.apply(policy_of(replace(secure, files_digest="3")))

    changed = {name for name, text in after.items() if text != before[name]}
    assert changed == {f"secret-{secure.cluster}-authorities.json", "rds.json"}
    assert world.files() == after


def test_a_refusal_of_what_needs_secrets(world: World, tmp_path: Path) -> None:
    """Secrets that were written for nothing are taken back too."""
    authority = Authority.create(tmp_path)
    secure = provider("s", 443, scheme="https", ca_file=str(authority.file))
    before = world.files()
    world.admin.verdicts[envoy_admin.CLUSTERS] = Verdict.REFUSED
    with pytest.raises(PolicyError):
        world.envoy.apply(policy_of(secure))

    assert world.files() == before


# === what is left behind ==========================================================


def test_routes_go_first(world: World) -> None:
    """After a while earlier routes go, and the clusters once nothing can need them."""
    world.envoy.apply(SECOND)
    seen = []
    for wait_s in (ROUTES_STAY_SECONDS - 1, 2, 600):
        world.now_s += wait_s
        changed = world.envoy.tidy()
        places = (world.routes(), world.clusters())
        seen.append([changed, *(A.cluster in names for names in places)])

    assert seen == [[False, True, True], [True, False, True], [True, False, False]]
    assert not world.envoy.tidy()
    [routes] = XdsFolder(world.path).read_json(xds.ROUTES)["resources"]
    assert told_in(routes) == set(SECOND.rendering.values())


def test_secrets_go_with_their_clusters(world: World, tmp_path: Path) -> None:
    """A secret that no cluster refers to is removed, after the cluster."""
    authority = Authority.create(tmp_path)
    secure = provider("s", 443, scheme="https", ca_file=str(authority.file))
    world.envoy.apply(policy_of(secure))
    world.envoy.apply(SECOND)
    seen = []
    for _ in range(2):
        seen.append(len(XdsFolder(world.path).names("secret-*")))
        world.now_s += 1_000
        world.envoy.tidy()
    seen.append(len(XdsFolder(world.path).names("secret-*")))

    assert seen == [1, 0, 0]


def test_what_comes_back(world: World) -> None:
    """A provider that is back before it was removed is left alone."""
    world.envoy.apply(SECOND)
    world.envoy.apply(FIRST)
    world.now_s += 1_000
    world.envoy.tidy()

    assert world.clusters() == world.routes() == {A.cluster, B.cluster}


def test_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many policies in a row the clusters of the last ones stay."""
    monkeypatch.setattr(live, "MAX_EARLIER", 2)
    for port in range(10, 15):
        world.now_s += 1
        world.envoy.apply(policy_of(replace(A, port=port)))

    ports = {port: replace(A, port=port).cluster for port in range(10, 15)}
    assert world.clusters() == {ports[12], ports[13], ports[14]}
    assert world.routes() <= world.clusters()


@pytest.mark.parametrize("damage", ["an older policy", "nothing", "half of it"])
def test_files_are_put_right(world: World, damage: str) -> None:
    """What a worker that has died made of the files is put right by the others."""
    world.envoy.apply(SECOND)
    if damage == "an older policy":
        world.worker().apply(FIRST)
    else:
        text = (world.path / "rds.json").read_bytes()
        broken = b"" if damage == "nothing" else text[:100]
        (world.path / "rds.json").write_bytes(broken)
    world.envoy.tidy()

    version = XdsFolder(world.path).read_json(xds.ROUTES)["version_info"]
    assert version.startswith(xds.key_of(SECOND, settings_of(world)))
    assert world.routes() >= {MOVED.cluster, B.cluster}


def settings_of(world: World) -> EnvoySettings:
    """Return what is rendered with."""
    return EnvoySettings(xds_dir=str(world.path), admin_socket="/a", ca_file="/ca")


def test_nobody_to_ask(tmp_path: Path) -> None:
    """Without an Envoy that runs or could be asked, files are written all the same."""
    admin = str(tmp_path / "admin")
    settings = EnvoySettings(xds_dir=str(tmp_path / "xds"), admin_socket=admin)
    envoy = live_envoy(settings)

    assert envoy.apply(FIRST) is Verdict.ABSENT
    assert not envoy.tidy()
    assert live_envoy(settings).apply(FIRST) is None


def test_an_envoy_that_is_not_there(tmp_path: Path) -> None:
    """An Envoy that should be asked, and is not there, is an error."""
    settings = EnvoySettings(xds_dir=str(tmp_path), admin_socket=str(tmp_path / "a"))

    with pytest.raises(FileNotFoundError):
        live_envoy(settings, tmp_path / "envoy").apply(FIRST)


def test_it_is_another_policy() -> None:
    """The two policies of these tests are not the same to Envoy."""
    policies: list[Policy] = [FIRST, SECOND]

    assert len({xds.key_of(each, EnvoySettings()) for each in policies}) == 2
