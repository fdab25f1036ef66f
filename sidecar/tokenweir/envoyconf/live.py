"""
Brings a policy to an Envoy that runs.

Make before break: clusters first, then the routes that lead there; in a refusal's case
and for what is not needed any more the other way round. Each step waits until Envoy has
taken it. The policy is put in force, by whoever called, only after the last one.

What earlier policies had stays for a while beside it:

- routes, for exchanges that another worker decides by the policy before;
- clusters longer, as an app may take its time to send what is decided by then. Envoy
  keeps a cluster's connections until their last stream has ended, however: a removed
  cluster ends none.

What Envoy refuses is taken back: the files are again what they were before, and so is
the policy. A worker that finds done what it is asked for has nothing to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tokenweir.core.errors import PolicyError
from tokenweir.core.policy import Policy
from tokenweir.envoyconf import envoy_admin, xds
from tokenweir.envoyconf.certificates import lacks_authorities, problems_of
from tokenweir.envoyconf.envoy_admin import EnvoyAdmin, Followed, Verdict
from tokenweir.envoyconf.settings import EnvoySettings
from tokenweir.envoyconf.validate import problem_of
from tokenweir.envoyconf.xds import Json, XdsRenderer
from tokenweir.envoyconf.xds_folder import XdsFolder

# Of what the policy before has led to: the slowest head of a request, twice.
ROUTES_STAY_SECONDS = 60.0
# Policies may change faster than that; each earlier cluster costs Envoy some memory.
MAX_EARLIER = 64
STATE = "state.json"

Validate = Callable[[Mapping[str, object]], str | None]


@dataclass(slots=True)
class _Earlier:
    """Clusters that no policy leads to any more, and since when (s since 1970)."""

    left_at: dict[str, float]

    def leave(self, names: Iterable[str], now: Iterable[str], at: float) -> None:
        """Note that of *names* those are left that are not among *now*."""
        current = set(now)
        left = {name for name in names if name not in current}
        kept = {name: self.left_at.get(name, at) for name in left}
        newest = sorted(kept, key=lambda name: kept[name])[-MAX_EARLIER:]
        self.left_at = {name: kept[name] for name in newest}

    def since(self, at: float) -> set[str]:
        """Return what was left after *at*."""
        return {name for name, left in self.left_at.items() if left > at}


class LiveEnvoy:
    """
    The Envoy of this pod. Blocks; used by one thread at a time.

    Args:
        renderer: Makes its files.
        folder: Where they are.
        admin: Where Envoy says what it makes of them.
        validate: Says why Envoy would refuse a configuration; None: nobody is asked.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        renderer: XdsRenderer,
        folder: XdsFolder,
        admin: EnvoyAdmin,
        validate: Validate | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._renderer = renderer
        self._folder = folder
        self._admin = admin
        self._validate = validate
        self._clock = clock
        self._key = ""
        self._policy: Policy | None = None
        upload_seconds = renderer.settings.upload_timeout_ms / 1_000
        self._clusters_stay_seconds = upload_seconds + ROUTES_STAY_SECONDS

    def begin(self, policy: Policy) -> None:
        """
        Have everything there that Envoy starts with, for *policy*.

        Raises: PolicyError, OSError.
        """
        self.apply(policy)
        with self._folder.locked():
            listeners = xds.encoded(self._renderer.listeners())
            self._folder.put(xds.LISTENERS, listeners)
            self._folder.put(xds.BOOTSTRAP, xds.encoded(self._renderer.bootstrap()))

    def apply(self, policy: Policy) -> Verdict | None:
        """
        Have Envoy know what *policy* needs; return what it says, None: it knew that.

        Raises:
            PolicyError: Envoy can't, and works as before.
            OSError: The files can't be written.
        """
        key = xds.key_of(policy, self._renderer.settings)
        if key == self._key:
            return None
        problems = list(problems_of(policy))
        if problems:
            raise PolicyError(problems)
        with self._folder.locked():
            # Routes come last: if they are there, another worker has done it.
            done = self._version(xds.ROUTES).startswith(f"{key}-")
            verdict = None if done else self._apply(policy, key)
        self._key, self._policy = key, policy
        return verdict

    def tidy(self) -> bool:
        """
        Remove what has stayed for long enough; tell if there was any.

        What somebody else has made of the files is put right first: a worker may have
        read an older policy, and died. Raises: PolicyError, OSError.
        """
        with self._folder.locked():
            if self._policy and not self._version(xds.ROUTES).startswith(self._key):
                self._apply(self._policy, self._key)
            now, earlier = self._clock(), self._earlier()
            routes = self._folder.read_json(xds.ROUTES)
            clusters = self._folder.read_json(xds.CLUSTERS)
            if not (earlier.left_at and routes and clusters):
                return False
            gone = set(earlier.left_at) - earlier.since(
                now - self._clusters_stay_seconds
            )
            unrouted = set(earlier.left_at) - earlier.since(now - ROUTES_STAY_SECONDS)
            return self._remove(routes, clusters, (unrouted, gone))

    def _remove(
        self, routes: Json, clusters: Json, names: tuple[set[str], set[str]]
    ) -> bool:
        unrouted, gone = names
        [old] = routes["resources"]
        key = str(routes["version_info"]).partition("-")[0]
        fewer = xds.versioned(xds.without_routes(old, unrouted), key)
        kept = [each for each in clusters["resources"] if each["name"] not in gone]
        changed = fewer != routes or xds.plain(kept) != clusters
        self._put(xds.ROUTES, fewer, envoy_admin.ROUTES)
        self._put(xds.CLUSTERS, xds.plain(kept), envoy_admin.CLUSTERS)
        if gone:
            left = self._earlier().left_at
            self._keep(_Earlier({k: v for k, v in left.items() if k not in gone}))
            used = xds.secrets_in(kept)
            for file in self._folder.names("secret-*.json") - used:
                self._folder.remove(file)
        return changed

    def _apply(self, policy: Policy, key: str) -> Verdict:
        before = _Before(self._folder)
        for file, content in self._renderer.secrets(policy).items():
            before.note(file)
            self._folder.put(file, xds.encoded(content))
        self._ask(policy, before)
        old = self._folder.read_json(xds.CLUSTERS).get("resources", [])
        new = self._renderer.clusters(policy)
        earlier = self._earlier()
        earlier.leave((each["name"] for each in old), new, self._clock())
        stay = [each for each in old if each["name"] in earlier.left_at]
        routes = self._folder.read_json(xds.ROUTES).get("resources", [None])
        merged = xds.merged_routes(
            self._renderer.routes(policy),
            routes[0],
            earlier.since(self._clock() - ROUTES_STAY_SECONDS),
        )
        files = (
            (xds.CLUSTERS, xds.plain([*new.values(), *stay]), envoy_admin.CLUSTERS),
            (xds.ROUTES, xds.versioned(merged, key), envoy_admin.ROUTES),
        )
        verdicts = [self._step(before, *each) for each in files]
        self._keep(earlier)
        return max(verdicts, key=list(Verdict).index)

    def _step(
        self, before: _Before, file: str, content: Json, followed: Followed
    ) -> Verdict:
        """Have *content* in *file*. Raises: PolicyError, and all is as *before*."""
        before.note(file)
        verdict = self._put(file, content, followed)
        if verdict is Verdict.REFUSED:
            before.restore()
            why = "and works as before; its log says why"
            raise PolicyError([f"envoy: has refused the new {file}, {why}"])
        return verdict

    def _ask(self, policy: Policy, before: _Before) -> None:
        """Ask an Envoy that does not run. Raises: PolicyError, OSError."""
        if self._validate is None:
            return
        settings = self._renderer.settings
        if lacks_authorities(policy, settings):
            before.restore()
            raise PolicyError(
                [f"envoy: there is no {settings.ca_file} on this machine"]
            )
        try:
            problem = self._validate(self._renderer.standing_alone(policy))
        except OSError:
            before.restore()
            raise
        if problem is not None:
            before.restore()
            raise PolicyError([f"envoy: would refuse it: {problem}"])

    def _put(self, file: str, content: Json, followed: Followed) -> Verdict:
        refusals = self._admin.refusals(followed)
        if not self._folder.put(file, xds.encoded(content)):
            return Verdict.APPLIED
        return self._admin.verdict(followed, content["version_info"], refusals)

    def _version(self, file: str) -> str:
        return str(self._folder.read_json(file).get("version_info", ""))

    def _earlier(self) -> _Earlier:
        left = self._folder.read_json(STATE).get("left_at", {})
        return _Earlier({str(name): float(at) for name, at in left.items()})

    def _keep(self, earlier: _Earlier) -> None:
        self._folder.put(STATE, xds.encoded({"left_at": earlier.left_at}))


class _Before:
    """What files were before, the last one that was noted first to be put back."""

    def __init__(self, folder: XdsFolder) -> None:
        self._folder = folder
        self._noted: dict[str, bytes | None] = {}

    def note(self, *files: str) -> None:
        for file in files:
            self._noted[file] = self._folder.read(file)

    def restore(self) -> None:
        for file, content in reversed(self._noted.items()):
            if content is None:
                self._folder.remove(file)
            elif self._folder.read(file) != content:
                self._folder.replace(file, content)


def live_envoy(settings: EnvoySettings, binary: Path | None = None) -> LiveEnvoy:
    """
    Return the Envoy of *settings*, which say where it finds its files and answers.

    *binary* is asked before anything is written; None: nobody is.
    """
    assert settings.xds_dir is not None
    assert settings.admin_socket is not None
    return LiveEnvoy(
        XdsRenderer(settings),
        XdsFolder(Path(settings.xds_dir)),
        EnvoyAdmin(Path(settings.admin_socket)),
        partial(problem_of, binary=binary) if binary else None,
    )
