"""A policy file is read whole, and told whole what is wrong with it."""

from __future__ import annotations

import hashlib
import pathlib
import re
import traceback
from collections.abc import Iterator
from zoneinfo import ZoneInfo

import pytest
import yaml

from tests.config.policies import (
    CANARY,
    ENV,
    FULL,
    KEY_A,
    KEY_B,
    SMALL,
    edited,
    load,
    problems,
    write,
)
from tests.config.slips import ENTRY, FIRST_QUOTA, SLIPS
from tokenweir.config.document import MAX_SOURCE_BYTES
from tokenweir.config.files import Files
from tokenweir.config.load import TENANT_VARIABLE, load_policy, parse_policy
from tokenweir.config.shape import all_fields
from tokenweir.core.errors import PolicyError
from tokenweir.core.policy import Axis, Budget, OnExceeded, Secret
from tokenweir.core.response_path import ResponsePath
from tokenweir.core.window import Calendar, Per

# As in the design, section 8, but for the hash.
DESIGN = f"""\
version: 1
providers:
  openai:    {{base_url: "https://api.openai.com", dialect: openai, credential: "env:OPENAI_API_KEY"}}
models:
  gpt-4o-mini: {{provider: openai, max_output_tokens: 16384}}
tenants:
  acme:
    keys: [{{id: acme-ci, sha256: "{KEY_A}"}}]
    quotas:
      - {{requests_per_minute: 600}}
      - {{tokens_per_minute: 60000, capacity: 60000}}
      - {{concurrency: 8}}
      - {{budget_usd: 50, per: day, time_zone: Asia/Tokyo, on_exceeded: {{downgrade_to: gpt-4o-mini}}}}
      - {{budget_usd: 1000, per: month, on_exceeded: block}}
"""


def names(value: object) -> set[str]:
    """Return every key in *value*."""
    if isinstance(value, dict):
        return set(value).union(*map(names, value.values()))
    return set().union(*map(names, value)) if isinstance(value, list) else set()


def test_the_designs_example_loads(tmp_path: pathlib.Path) -> None:
    """The policy that the design shows is a policy, as it stands."""
    policy = load(tmp_path, DESIGN)

    quotas = policy.tenants["acme"].quotas
    assert [(quota.axis, quota.capacity) for quota in quotas] == [
        (Axis.REQUESTS, 600),
        (Axis.TOKENS, 60_000),
        (Axis.CONCURRENCY, 8),
        (Axis.BUDGET_USD, 50 * 10**9),
        (Axis.BUDGET_USD, 1000 * 10**9),
    ]
    assert [quota.budget for quota in quotas] == [
        *[None] * 3,
        Budget(
            Calendar(Per.DAY, ZoneInfo("Asia/Tokyo")),
            OnExceeded.DOWNGRADE,
            ("gpt-4o-mini",),
        ),
        Budget(Calendar(Per.MONTH, ZoneInfo("UTC"))),
    ]
    assert policy.providers["openai"].credential == Secret(CANARY)
    assert policy.digest == hashlib.sha256(DESIGN.encode()).hexdigest()[:12]


def test_every_field_at_once(tmp_path: pathlib.Path) -> None:
    """A policy that uses all of them loads, and has them all."""
    policy = load(tmp_path, FULL)

    # Only files that are there could be named.
    unused = {place[-1] for place, _ in all_fields()} - names(yaml.safe_load(FULL))
    assert unused == {"ca_file", "cert_file", "key_file", "overlays"}
    assert policy.default_providers == {"openai": "local", "anthropic": "claude"}
    assert policy.body_limit_bytes == 1_048_576
    assert policy.responses.path_of("messages") is ResponsePath.NATIVE
    assert policy.responses.path_of("embeddings") is ResponsePath.INSPECT


def test_mistakes_in_budgets_are_told_at_once(tmp_path: pathlib.Path) -> None:
    """However deep they are, wherever they are found, each has its own line."""
    budgets = """\
      - budget_usd: 5
        anchor:
          day: 1
        on_exceeded:
          downgrade_to:
            - gpt-4o-mini
            - gpt-5
          throttle_percent: 10
          hard_limit_tokens: 5
      - budget_tokens: 1000
        per: week
        anchor:
          hour: 24
          weekday: 1
        on_exceeded:
          downgrade_to: []
          hard_limit_tokens: 0
      - budget_tokens: 1000
        per: day
        anchor:
          day: 1
        on_exceeded:
          hard_limit_tokens: 2000
"""
    place = "tenants.acme.quotas"

    assert problems(tmp_path, DESIGN + budgets) == [
        f"{place}.5.per: is missing: say `hour`, `day`, `week` or `month` (line 15)",
        f"{place}.5.on_exceeded.downgrade_to.1: matches no model of this policy (line 21)",
        (
            f"{place}.5.on_exceeded.throttle_percent: does not go with `downgrade_to`: a "
            "budget does one or the other (line 22)"
        ),
        (
            f"{place}.5.on_exceeded.hard_limit_tokens: is not what the budget is in: say "
            "`hard_limit_usd` (line 23)"
        ),
        f"{place}.6.anchor.hour: must be at most 23 (line 27)",
        (
            f"{place}.6.anchor.weekday: must be 'monday', 'tuesday', 'wednesday', "
            "'thursday', 'friday', 'saturday' or 'sunday' (line 28)"
        ),
        (
            f"{place}.6.on_exceeded.downgrade_to: must be a model's name, or a list of "
            "some (line 30)"
        ),
        f"{place}.6.on_exceeded.hard_limit_tokens: must be at least 1 (line 31)",
        f"{place}.7.anchor.day: only goes with `per: month` (line 35)",
        (
            f"{place}.7.on_exceeded.hard_limit_tokens: has no effect: without "
            "`downgrade_to` or `throttle_percent` it blocks at `budget_tokens` already "
            "(line 37)"
        ),
    ]


@pytest.mark.parametrize(("old", "new", "expected"), SLIPS)
def test_each_slip_has_its_line(
    tmp_path: pathlib.Path, old: str, new: str, expected: str
) -> None:
    """A slip is told by its path, what to do, and its line; nothing else is."""
    assert problems(tmp_path, edited(old, new)) == expected.splitlines()


@pytest.mark.parametrize("section", ["providers", "models", "tenants"])
def test_what_a_policy_needs(tmp_path: pathlib.Path, section: str) -> None:
    """A section that is not there is told; what refers to it is not wrong too."""
    content = yaml.safe_load(SMALL)
    del content[section]
    absent = problems(tmp_path, yaml.safe_dump(content))
    content[section] = {}
    empty = problems(tmp_path, yaml.safe_dump(content))
    content[section] = 5
    number = problems(tmp_path, yaml.safe_dump(content))

    assert absent == [f"{section}: is missing"]
    assert empty[-1].startswith(f"{section}: must have at least one entry (line ")
    assert len(number) == 1
    assert number[0].startswith(f"{section}: must be a mapping (line ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "policy: is empty"),
        ("# nothing but a comment\n", "policy: is empty"),
        ("---\n...\n", "policy: is empty"),
        ("- version: 1\n", "policy: must be a mapping"),
        ("version\n", "policy: must be a mapping"),
        ("version: 1\n---\nversion: 1\n", "line 2, column 1: begins a second document; a policy is one"),
        ("version: 1\n  models: 2\n", "line 2, column 9: mapping values are not allowed in this context"),
        ("a: \tb\n\tc: d\n", "line 2, column 1: found a tab character that violates indentation"),
    ],
)  # fmt: skip
def test_what_is_no_policy_at_all(
    tmp_path: pathlib.Path, text: str, expected: str
) -> None:
    """A file that holds no mapping is told so; bad YAML has line and column."""
    assert problems(tmp_path, text) == [expected]


def test_unreadable_files(tmp_path: pathlib.Path) -> None:
    """A file that is absent, a folder, or too large is a problem, not a crash."""
    large = write(tmp_path, "#" * (MAX_SOURCE_BYTES + 1))

    for path, expected in (
        (tmp_path / "absent", "policy: can't be read: no such file or directory"),
        (tmp_path, "policy: is a folder, not a file"),
        (large, "policy: is larger than 4194304 bytes"),
    ):
        with pytest.raises(PolicyError) as caught:
            load_policy(path, ENV)
        assert caught.value.problems == (expected,)


def test_all_problems_are_told_at_once(tmp_path: pathlib.Path) -> None:
    """Wrong values, wrong references and absent secrets come together, in order."""
    text = f"""\
version: 1
retries: 99
providers:
  openai: {{base_url: "https://api.openai.com", dialect: openai, credential: "env:A"}}
  broken: {{base_url: "ftp://", dialect: openai, credential: "env:B"}}
models:
  one: {{provider: broken}}
  two: {{provider: nobody}}
  three: {{}}
tenants:
  acme:
    on_ledger_failure: ajar
    keys:
      - {{id: a}}
      - {{id: b, sha256: "{KEY_A}"}}
      - {{id: b, sha256: "{KEY_B}"}}
    quotas:
      - {{concurrency: zero}}
      - {{concurrency: 1, models: [three]}}
      - {{requests_per_minute: 1, models: [four]}}
"""

    assert problems(tmp_path, text) == [
        "retries: must be at most 10 (line 2)",
        "providers.openai.credential: environment variable A is not set (line 4)",
        "providers.broken.base_url: must begin with https:// or http:// (line 5)",
        "providers.broken.credential: environment variable B is not set (line 5)",
        "models.two.provider: is not among `providers` (line 8)",
        "models.three.provider: is missing (line 9)",
        "tenants.acme.on_ledger_failure: must be 'closed', 'open' or 'bounded' (line 12)",
        "tenants.acme.keys.0.sha256: is missing (line 14)",
        "tenants.acme.keys.2.id: is the id of another key too, of tenant acme (line 16)",
        "tenants.acme.quotas.0.concurrency: must be a whole number (line 18)",
        "tenants.acme.quotas.2.models.0: matches no model of this policy (line 20)",
    ]


CLAUDE, MINI, KEY = "providers.claude", "models.gpt-4o-mini", "tenants.acme.keys.0"
QUOTA = "tenants.acme.quotas.0"
# What is replaced, by what, and the places that are wrong then.
HIDDEN = [
    ("dialect: anthropic", "dialect: claude, credential: env:NO, ca_file: /no", f"{CLAUDE}.dialect {CLAUDE}.credential {CLAUDE}.ca_file"),
    ("dialect: anthropic", 'dialect: claude, base_url: "ftp:"', f"{CLAUDE}.dialect {CLAUDE}.base_url"),
    ('"https://api.anthropic.com"', "http://host, allow_plaintext: 1, credential: env:NO", f"{CLAUDE}.allow_plaintext {CLAUDE}.credential"),
    (ENTRY, "{provider: no, tokenizer: no, timeout_class: no, max_output_tokens: 0}", f"{MINI}.provider {MINI}.tokenizer {MINI}.timeout_class {MINI}.max_output_tokens"),
    (ENTRY, "{provider: openai, default_output_tokens: 99999, max_output_tokens: 0}", f"{MINI}.max_output_tokens"),
    (ENTRY, "{providr: openai, tokenizer: no}", f"{MINI}.providr {MINI}.provider {MINI}.tokenizer"),
    (ENTRY, "{provider: openai, tokenize: {url: x, deadline: 5s, header: a b, min_bytes: 9, max_bytes: 8, credential: env:NO}}", f"{MINI}.tokenize.url {MINI}.tokenize.deadline {MINI}.tokenize.header {MINI}.tokenize {MINI}.tokenize.credential"),
    (ENTRY, "{provider: openai, tokenize: {url: 'http://10.0.0.9/', min_bytes: 9, max_bytes: 8, credential: env:NO}}", f"{MINI}.tokenize {MINI}.tokenize.url {MINI}.tokenize.credential"),
    (ENTRY, "{provider: no, tokenize: http://a}", f"{MINI}.provider {MINI}.tokenize"),
    ("  gpt-4o-mini: {provider: openai", "  gpt 4: {provider: no", "models.gpt 4 models.gpt 4.provider"),
    (f'sha256: "{KEY_A}"', "sha256: 1, models: [no]", f"{KEY}.sha256 {KEY}.models.0"),
    (FIRST_QUOTA, "mode: off, concurrency: 5, capacity: 5, models: [no]", f"{QUOTA}.mode {QUOTA} {QUOTA}.models.0"),
    (FIRST_QUOTA, "requests_per_minute: 5, concurrency: 5, models: [no]", f"{QUOTA} {QUOTA}.models.0"),
    (FIRST_QUOTA, "rpm: 5, models: [no]", f"{QUOTA}.rpm {QUOTA}.models.0"),
    (FIRST_QUOTA, "budget_usd: x, per: day, models: [no]", f"{QUOTA}.budget_usd {QUOTA}.models.0"),
    (FIRST_QUOTA, "budget: 5, per: day, models: [no]", f"{QUOTA}.budget {QUOTA}.models.0"),
    (FIRST_QUOTA, "budget_usd: 5, per: weekly, anchor: {weekday: monday}, models: [no]", f"{QUOTA}.per {QUOTA}.models.0"),
    (FIRST_QUOTA, "budget_usd: x, per: day, on_exceeded: {downgrade_to: no, hard_limit_usd: 5}", f"{QUOTA}.budget_usd {QUOTA}.on_exceeded.downgrade_to.0"),
    (FIRST_QUOTA, "budget_usd: 5, per: day, alerts: 5, on_exceeded: {throttle_percent: 5}", f"{QUOTA}.alerts {QUOTA}.on_exceeded.hard_limit_usd"),
    (FIRST_QUOTA, "budget_usd: 5, on_exceeded: blok", f"{QUOTA}.on_exceeded {QUOTA}.per"),
    (FIRST_QUOTA, "concurrency: 0, name: a, models: ['']", f"{QUOTA}.concurrency {QUOTA}.models.0"),
    ("    quotas:", "    models: [no]\n    qotas: 1\n    quotas:", "tenants.acme.models.0 tenants.acme.qotas"),
    ("version: 1", "version: 1\nquotas: [5, {concurrency: x, models: [no]}]", "quotas.0 quotas.1.concurrency quotas.1.partition quotas.1.models.0"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "places"), HIDDEN)
def test_a_wrong_field_hides_no_other(
    tmp_path: pathlib.Path, old: str, new: str, places: str
) -> None:
    """Each mistake of one entry is told once, whatever else is wrong with it."""
    told = [line.partition(": ")[0] for line in problems(tmp_path, edited(old, new))]
    expected = re.findall(r"(?:models\.gpt 4|\S)\S*", places)

    assert sorted(told) == sorted(expected)


def test_secrets_stay_unknown_if_asked(tmp_path: pathlib.Path) -> None:
    """Without credentials, nothing outside of the file is looked at."""
    text = edited("dialect: anthropic", "dialect: anthropic, ca_file: /no/such")
    files = Files()

    policy = load_policy(write(tmp_path, text), {}, files=files, credentials=False)

    assert policy.providers["openai"].credential is None
    assert policy.providers["claude"].ca_file == "/no/such"
    assert list(files.seen) == [tmp_path / "policy.yaml"]


def test_a_byte_order_mark_is_no_problem(tmp_path: pathlib.Path) -> None:
    """Editors on Windows put one in front of the text."""
    assert load(tmp_path, "\ufeff" + SMALL).providers.keys() == {"openai", "claude"}


def test_a_credential_shows_nowhere(tmp_path: pathlib.Path) -> None:
    """The policy has the credential, and its repr has not."""
    policy = load(tmp_path)

    assert policy.providers["openai"].credential == Secret(CANARY)
    assert CANARY not in repr(policy)


def leaves(
    value: object, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every scalar in *value*."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, (*path, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from leaves(part, (*path, index))
    else:
        yield path


@pytest.mark.parametrize("path", list(leaves(yaml.safe_load(SMALL))), ids=str)
def test_a_secret_in_the_wrong_place_is_not_repeated(
    tmp_path: pathlib.Path, path: tuple[str | int, ...]
) -> None:
    """Whichever value a secret was pasted into, no problem or traceback shows it."""
    content = yaml.safe_load(SMALL)
    place = content
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = CANARY
    content["retries"] = 99
    with pytest.raises(PolicyError) as caught:
        load(tmp_path, yaml.safe_dump(content))

    assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_a_policy_need_not_be_in_a_file(tmp_path: pathlib.Path) -> None:
    """What was published is the same policy, with the same digest and problems."""
    path = write(tmp_path, SMALL)

    assert parse_policy(SMALL.encode(), ENV) == load_policy(path, ENV)
    with pytest.raises(PolicyError, match="OPENAI_API_KEY"):
        parse_policy(SMALL.encode(), {})
    assert parse_policy(SMALL.encode(), {}, credentials=False).tenants


def test_a_pods_own_tenant(tmp_path: pathlib.Path) -> None:
    """Its word wins over the policy's, and has to be a tenant's name."""
    path = write(tmp_path, SMALL)
    env = {**ENV, TENANT_VARIABLE: "acme"}

    assert load_policy(path, env).single_tenant == "acme"
    assert load_policy(path, {**ENV, TENANT_VARIABLE: ""}).single_tenant is None
    with pytest.raises(PolicyError, match="single_tenant: is not among `tenants`"):
        load_policy(path, {**ENV, TENANT_VARIABLE: "globex"})
