"""What an author can get wrong, and the line that says so."""

from __future__ import annotations

from tests.config.policies import CANARY, KEY_A

FIRST_QUOTA = "requests_per_minute: 600"
ENTRY = "{provider: openai}"
NAMES = (
    "must begin with a letter or digit, and have no other characters than those and "
    "._- (at most 63)"
)
FAMILIES = (
    "must begin with a letter or digit, have no other characters than those and "
    "._/:@- (at most 256), and `*` only at its end"
)
AXES = (
    "must have exactly one of requests_per_minute, tokens_per_minute, "
    "input_tokens_per_minute, output_tokens_per_minute, concurrency, budget_usd, "
    "budget_tokens"
)
DOLLARS = "must be US dollars, a number such as 50 or 0.25"
ZONE = "a name such as UTC, Asia/Tokyo or America/New_York"
MODEL_NAMES = (
    "must begin with a letter or digit, and have no other characters than those and "
    "._/:@- (at most 256)"
)
NO_END = (
    "is missing, and nothing else stops these calls: set it, or add a budget that blocks "
    "and is for the same models and routes, such as"
)
BUDGET = "tenants.acme.quotas.0"
EXCEEDED = "tenants.acme.quotas.0.on_exceeded"
MOMENT = (
    "must be a moment with an offset from UTC, such as `2027-01-31T00:00:00Z` or "
    "`2027-01-31T00:00:00+09:00`"
)
REFERENCE = (
    "must say where the secret is, as env:OPENAI_API_KEY or file:/run/secrets/openai; "
    "the secret itself has no place in a policy"
)

# What is replaced, by what, and what is said then.
SLIPS = [
    ("version: 1", "version: 2", "version: must be 1: this is all that this release can read (line 1)"),
    ("version: 1", "version: true", "version: must be 1: this is all that this release can read (line 1)"),
    ("version: 1", 'version: "1"', "version: must be 1: this is all that this release can read (line 1)"),
    ("version: 1\n", "", "version: is missing: begin the file with `version: 1`"),
    ("version: 1", "version: 1\nretires: 1", "retires: is unknown; did you mean `retries`? (line 2)"),
    (
        "version: 1",
        "version: 1\nzzz: 1",
        ("zzz: is unknown; known here: version, providers, models, tenants, quotas, "
        "caps, audit, single_tenant, default_providers, timeouts, route_timeouts, responses, "
        "retries, "
        "body_limit, on_ledger_failure, calibration, prices, notifications (line 2)"),
    ),
    ("version: 1", "version: 1\nretries: 11", "retries: must be at most 10 (line 2)"),
    ("version: 1", "version: 1\nretries: -1", "retries: must be at least 0 (line 2)"),
    ("version: 1", "version: 1\nretries: two", "retries: must be a whole number (line 2)"),
    ("version: 1", "version: 1\nretries:", "retries: has no value: give it one, or remove it (line 2)"),
    ("version: 1", "version: 1\nretries: 1\nretries: 2", "retries: stands twice, first in line 2: remove one (line 3)"),
    ("version: 1", "version: 1\nbody_limit: 8MB", "body_limit: must be bytes, or text such as 512KiB or 8MiB (line 2)"),
    ("version: 1", "version: 1\nbody_limit: 65MiB", "body_limit: must be from 1KiB to 64MiB (line 2)"),
    ("version: 1", "version: 1\nbody_limit: 1023", "body_limit: must be from 1KiB to 64MiB (line 2)"),
    ("version: 1", "version: 1\non_ledger_failure: maybe", "on_ledger_failure: must be 'closed', 'open' or 'bounded' (line 2)"),
    ("version: 1", "version: 1\nsingle_tenant: akme", "single_tenant: is not among `tenants` (line 2)"),
    ("version: 1", "version: 1\nsingle_tenant: 5", "single_tenant: must be text: put it in quotes (line 2)"),
    ("version: 1", "version: 1\ndefault_providers: {openai: none}", "default_providers.openai: is not among `providers` (line 2)"),
    ("version: 1", "version: 1\ndefault_providers: {openai: claude}", "default_providers.openai: is a provider that speaks anthropic (line 2)"),
    ("version: 1", "version: 1\ndefault_providers: {google: openai}", "default_providers.google: must be 'openai', 'anthropic', 'azure', 'gemini' or 'bedrock' (line 2)"),
    ("version: 1", "version: 1\ntimeouts: {slow: {total: soon}}", "timeouts.slow.total: must be seconds, or text such as 500ms, 30s, 10m or 1h (line 2)"),
    ("version: 1", "version: 1\ntimeouts: {slow: {total: 25h}}", "timeouts.slow.total: must be from 0 to 24h (line 2)"),
    ("version: 1", "version: 1\ntimeouts: {slow: {idle: 0}}", "timeouts.slow.idle: must be above 0: a dead connection would stay for ever (line 2)"),
    ("version: 1", "version: 1\nroute_timeouts: {models: slow}", "route_timeouts.models: is not among `timeouts` (line 2)"),
    (
        "version: 1",
        "version: 1\nroute_timeouts: {chat: default}",
        ("route_timeouts.chat: must be 'chat_completions', 'messages', 'responses', 'completions', 'embeddings', 'images', 'transcriptions', 'speech', 'generate_content', 'embed_content', 'converse', 'invoke_model', 'count_tokens', "
        "'moderations', 'models', 'opaque' or 'other' (line 2)"),
    ),
    ("version: 1", "version: 1\nquotas: [{concurrency: 5}]", "quotas.0.partition: is missing: say [tenant] for a limit that each tenant has for itself, or [provider] or [model] for one that all share (line 2)"),
    ("version: 1", "version: 1\nquotas: {concurrency: 5}", "quotas: must be a list (line 2)"),
    ("  openai: {", "  open ai: {", f"providers.open ai: {NAMES} (line 3)\nmodels.gpt-4o-mini.provider: is not among `providers` (line 6)"),
    ("https://api.openai.com", "api.openai.com", "providers.openai.base_url: must begin with https:// or http:// (line 3)"),
    ("https://api.openai.com", f"https://me:{CANARY}@api.openai.com", "providers.openai.base_url: must not hold a user name or password: use `credential` (line 3)"),
    ("https://api.openai.com", f"https://api.openai.com?key={CANARY}", "providers.openai.base_url: must not hold a query or fragment: end it before ? or # (line 3)"),
    (
        "https://api.openai.com",
        "http://api.openai.com",
        ("providers.openai.base_url: would send the credential in plain text to another "
        "machine: use https, or say `allow_plaintext: true` (line 3)"),
    ),
    ('"https://api.anthropic.com"', "http://localhost, ca_file: /ca.pem", "providers.claude.ca_file: has no effect with http (line 4)"),
    ("dialect: anthropic", "dialect: anthropic, http2: true", "providers.claude.http2: goes with http only: over https both sides agree on it (ALPN) (line 4)"),
    ("dialect: anthropic", "dialect: anthropic, ca_file: ca.pem", "providers.claude.ca_file: must be a path that begins with / (line 4)"),
    ("dialect: anthropic", "dialect: anthropic, ca_file: /no/such.pem", "providers.claude.ca_file: can't be read: no such file or directory (line 4)"),
    ("dialect: anthropic", "dialect: claude", "providers.claude.dialect: must be 'openai', 'anthropic', 'azure', 'gemini' or 'bedrock' (line 4)"),
    (", dialect: anthropic", "", "providers.claude.dialect: is missing (line 4)"),
    ("dialect: anthropic", "dialect: anthropic, unknown_paths: pass", "providers.claude.unknown_paths: must be 'refuse', 'opaque' or a list of methods and paths: `POST /v1/vector_stores` or `GET /v1/files/*` (line 4)"),
    ("dialect: anthropic", "dialect: anthropic, unknown_paths: [/v1/files]", "providers.claude.unknown_paths: must list a method and a path each: `POST /v1/vector_stores` or `GET /v1/files/*` (line 4)"),
    ("dialect: anthropic", 'dialect: anthropic, allow_plaintext: "yes"', "providers.claude.allow_plaintext: must be true or false (line 4)"),
    ("dialect: anthropic", f"dialect: anthropic, api_key: {CANARY}", "providers.claude.api_key: is unknown; did you mean `credential`? (line 4)"),
    ("env:OPENAI_API_KEY", CANARY, f"providers.openai.credential: {REFERENCE} (line 3)"),
    ("env:OPENAI_API_KEY", f"env:{CANARY}", f"providers.openai.credential: {REFERENCE} (line 3)"),
    ("env:OPENAI_API_KEY", "env:OTHER", "providers.openai.credential: environment variable OTHER is not set (line 3)"),
    ("env:OPENAI_API_KEY", "file:/no/such", "providers.openai.credential: file:/no/such can't be read: no such file or directory (line 3)"),
    ("gpt-4o-mini:", "gpt*mini:", f"models.gpt*mini: {FAMILIES} (line 6)"),
    (ENTRY, "{provider: opnai}", "models.gpt-4o-mini.provider: is not among `providers` (line 6)"),
    (ENTRY, "{provider: openai, upstream_model: gpt-*}", "models.gpt-4o-mini.upstream_model: must begin with a letter or digit, and have no other characters than those and ._/:@- (at most 256) (line 6)"),
    (ENTRY, "{provider: openai, upstream_model: 4.1}", "models.gpt-4o-mini.upstream_model: must be text: put it in quotes (line 6)"),
    (ENTRY, "{provider: openai, timeout_class: slow}", "models.gpt-4o-mini.timeout_class: is not among `timeouts` (line 6)"),
    (ENTRY, "{provider: openai, max_output_tokens: 0}", "models.gpt-4o-mini.max_output_tokens: must be at least 1 (line 6)"),
    (ENTRY, "{provider: openai, max_output_tokens: 10000001}", "models.gpt-4o-mini.max_output_tokens: must be at most 10000000 (line 6)"),
    (ENTRY, "{provider: openai, default_output_tokens: 20000}", "models.gpt-4o-mini.default_output_tokens: must be at most max_output_tokens, 16384 (line 6)"),
    (ENTRY, "{provider: openai, tokenizer: o200k}", "models.gpt-4o-mini.tokenizer: is unknown; known are o200k_base, cl100k_base, claude-3, claude-4.7, qwen, qwen-3.5, llama, deepseek, gemini, default (line 6)"),
    (ENTRY, "openai", "models.gpt-4o-mini: must be a mapping (line 6)"),
    ("  acme:", "  ac me:", f"tenants.ac me: {NAMES} (line 9)"),
    (f'"{KEY_A}"', CANARY, "tenants.acme.keys.0.sha256: must be 64 hex digits, the SHA-256 of the key and not the key itself: `tokenweir keys hash` prints it (line 11)"),
    (f'sha256: "{KEY_A}"', f"key: {CANARY}", "tenants.acme.keys.0.sha256: is missing (line 11)\ntenants.acme.keys.0.key: is unknown; did you mean `sha256`? (line 11)"),
    (f'"{KEY_A}"', f'"{KEY_A}", expires: 90d', "tenants.acme.keys.0.expires: is unknown; did you mean `expires_at`? (line 11)"),
    (f'"{KEY_A}"', f'"{KEY_A}", expires_at: 2027-01-31', f"tenants.acme.keys.0.expires_at: {MOMENT} (line 11)"),
    (f'"{KEY_A}"', f'"{KEY_A}", expires_at: 2027-01-31T00:00:00', f"tenants.acme.keys.0.expires_at: {MOMENT} (line 11)"),
    (f'"{KEY_A}"', f'"{KEY_A}", expires_at: 2027-02-30T00:00:00Z', "tenants.acme.keys.0.expires_at: must be a day and a time that there are (line 11)"),
    (f'"{KEY_A}"', f'"{KEY_A}", routes: []', "tenants.acme.keys.0.routes: must name at least one; without this field it is for all (line 11)"),
    (f'"{KEY_A}"', f'"{KEY_A}", quotas: [{{concurrency: 0}}]', "tenants.acme.keys.0.quotas.0.concurrency: must be at least 1 (line 11)"),
    (f'"{KEY_A}"', f'"{KEY_A}", quotas: [{{budget_usd: 1, models: [gpt-5]}}]', "tenants.acme.keys.0.quotas.0.models.0: matches no model of this policy (line 11)\ntenants.acme.keys.0.quotas.0.per: is missing: say `hour`, `day`, `week` or `month` (line 11)"),
    (f'"{KEY_A}"', f'"{KEY_A}", models: [gpt-5]', "tenants.acme.keys.0.models.0: matches no model of this policy (line 11)"),
    ("    keys:", "    models: []\n    keys:", "tenants.acme.models: must name at least one; without this field it is for all (line 10)"),
    ("    keys:", "    models: [gpt-4o-mini, gpt-5*]\n    keys:", "tenants.acme.models.1: matches no model of this policy (line 10)"),
    ("    keys:", "    on_ledger_failure: perhaps\n    keys:", "tenants.acme.on_ledger_failure: must be 'closed', 'open' or 'bounded' (line 10)"),
    (FIRST_QUOTA, "requests_per_minute: 0", "tenants.acme.quotas.0.requests_per_minute: must be at least 1 (line 13)"),
    (FIRST_QUOTA, "requests_per_minute: 10000000001", "tenants.acme.quotas.0.requests_per_minute: must be at most 10000000000 (line 13)"),
    (FIRST_QUOTA, "requests_per_minute: 1.5", "tenants.acme.quotas.0.requests_per_minute: must be a whole number (line 13)"),
    (FIRST_QUOTA, "requests_per_minute: true", "tenants.acme.quotas.0.requests_per_minute: must be a whole number (line 13)"),
    (FIRST_QUOTA, "requests_per_minute: 0600", "tenants.acme.quotas.0.requests_per_minute: must be a whole number (line 13)"),
    (FIRST_QUOTA, "concurrency: 100001", "tenants.acme.quotas.0.concurrency: must be at most 100000 (line 13)"),
    (FIRST_QUOTA, "concurrency: 5, capacity: 5", "tenants.acme.quotas.0: has `capacity`, which concurrency has none of: remove it (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, per: day, stagger: true", "tenants.acme.quotas.0: has `stagger`, but a budget's callers come back when its window turns: remove it (line 13)"),
    (FIRST_QUOTA, "concurrency: 5, counts: total", "tenants.acme.quotas.0: has `counts`, which only goes with tokens_per_minute (line 13)"),
    (FIRST_QUOTA, "requests_per_minute: 5, concurrency: 5", f"tenants.acme.quotas.0: {AXES} (line 13)"),
    (FIRST_QUOTA, "mode: shadow", f"tenants.acme.quotas.0: {AXES} (line 13)"),
    (FIRST_QUOTA, "requests_per_minute: ", "tenants.acme.quotas.0.requests_per_minute: has no value: give it one, or remove it (line 13)"),
    (FIRST_QUOTA, "rpm: 600", "tenants.acme.quotas.0.rpm: is unknown; did you mean `requests_per_minute`? (line 13)"),
    (FIRST_QUOTA, "tokns_per_minute: 600", "tenants.acme.quotas.0.tokns_per_minute: is unknown; did you mean `tokens_per_minute`? (line 13)"),
    (FIRST_QUOTA, "concurrency: 5, mode: off", "tenants.acme.quotas.0.mode: must be 'enforce' or 'shadow' (line 13)"),
    (FIRST_QUOTA, "concurrency: 5, partition: []", "tenants.acme.quotas.0.partition: must name at least one; without this field it is for all (line 13)"),
    (FIRST_QUOTA, "concurrency: 5, partition: [team]", "tenants.acme.quotas.0.partition.0: must be 'tenant', 'key', 'user', 'route', 'model' or 'provider' (line 13)"),
    (FIRST_QUOTA, "concurrency: 5, routes: [chat]", "tenants.acme.quotas.0.routes.0: must be 'chat_completions', 'messages', 'responses', 'completions', 'embeddings', 'images', 'transcriptions', 'speech', 'generate_content', 'embed_content', 'converse', 'invoke_model', 'count_tokens', 'moderations', 'models', 'opaque' or 'other' (line 13)"),
    (FIRST_QUOTA, "concurrency: 5, models: [gpt-5]", "tenants.acme.quotas.0.models.0: matches no model of this policy (line 13)"),
    (FIRST_QUOTA, "concurrency: 5, models: ['']", f"tenants.acme.quotas.0.models.0: {FAMILIES} (line 13)"),
    (FIRST_QUOTA, "concurrency: 5, models: [~]", "tenants.acme.quotas.0.models.0: has no value: give it one, or remove it (line 13)"),
    (FIRST_QUOTA, "concurrency: 5, name: a.b", "tenants.acme.quotas.0.name: must begin with a letter or digit, and have no other characters than those and _- (at most 63) (line 13)"),
    ("version: 1", "version: 1\nprices: {overlays: /a.json}", "prices.overlays: must be a list (line 2)"),
    ("version: 1", "version: 1\nprices: {overlays: [a.json]}", "prices.overlays.0: must be a path that begins with / (line 2)"),
    ("version: 1", "version: 1\nprices: {overlays: [/no/such.json]}", "prices.overlays.0: prices: can't be read: no such file or directory (line 2)"),
    ("version: 1", "version: 1\nprices: {ceiling: 5}", "prices.ceiling: must be a mapping (line 2)"),
    ("version: 1", "version: 1\nprices: {ceiling: {input_usd_per_million: free}}", "prices.ceiling.input_usd_per_million: must be US dollars for a million tokens, such as 2.5 (line 2)\nprices.ceiling.output_usd_per_million: is missing (line 2)"),
    ("version: 1", "version: 1\nprices: {marginal: 1}", "prices.marginal: must be true or false (line 2)"),
    (
        FIRST_QUOTA,
        "tokens_per_minute: 5, counts: total",
        ("tenants.acme.quotas.1.name: must be set and different: another quota of this "
        "list has the same axis and partition, or this name (line 14)"),
    ),
    (FIRST_QUOTA, "budget_usd: 5", f"{BUDGET}.per: is missing: say `hour`, `day`, `week` or `month` (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, per: year", f"{BUDGET}.per: must be 'hour', 'day', 'week' or 'month' (line 13)"),
    (FIRST_QUOTA, 'budget_usd: "50 USD", per: day', f"{BUDGET}.budget_usd: {DOLLARS} (line 13)"),
    (FIRST_QUOTA, "budget_usd: true, per: day", f"{BUDGET}.budget_usd: {DOLLARS} (line 13)"),
    (FIRST_QUOTA, "budget_usd: 0, per: day", f"{BUDGET}.budget_usd: must be above 0, and at most 4,500,000 US dollars (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5000000, per: day", f"{BUDGET}.budget_usd: must be above 0, and at most 4,500,000 US dollars (line 13)"),
    (FIRST_QUOTA, "budget_usd: 0.0000000001, per: day", f"{BUDGET}.budget_usd: must have at most 9 digits after the point (line 13)"),
    (FIRST_QUOTA, "budget_tokens: 0.5, per: day", f"{BUDGET}.budget_tokens: must be a whole number (line 13)"),
    (FIRST_QUOTA, "budget_tokens: 4500000000000001, per: day", f"{BUDGET}.budget_tokens: must be at most 4500000000000000 (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, budget_tokens: 5, per: day", f"{BUDGET}: {AXES} (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, per: day, capacity: 5", f"{BUDGET}: has `capacity`, which budget_usd has none of: remove it (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, per: day, counts: input", f"{BUDGET}: has `counts`, which only goes with tokens_per_minute (line 13)"),
    (FIRST_QUOTA, "budget: 5, per: day", f"{BUDGET}.budget: is unknown; did you mean `budget_usd`? (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, period: day", f"{BUDGET}.period: is unknown; did you mean `per`? (line 13)\n{BUDGET}.per: is missing: say `hour`, `day`, `week` or `month` (line 13)"),
    (
        FIRST_QUOTA,
        "concurrency: 5, per: day, time_zone: UTC",
        (f"{BUDGET}.per: only goes with budget_usd or budget_tokens: remove it (line 13)\n"
        f"{BUDGET}.time_zone: only goes with budget_usd or budget_tokens: remove it (line 13)"),
    ),
    (FIRST_QUOTA, "budget_usd: 5, per: day, time_zone: Tokyo", f"{BUDGET}.time_zone: is no time zone; did you mean `Asia/Tokyo`? (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, per: day, time_zone: Nowhere", f"{BUDGET}.time_zone: is no time zone: say {ZONE} (line 13)"),
    (FIRST_QUOTA, 'budget_usd: 5, per: day, time_zone: "+09:00"', f"{BUDGET}.time_zone: must be {ZONE} (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, per: month, anchor: {day: 32}", f"{BUDGET}.anchor.day: must be at most 31 (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, per: month, anchor: {hours: 2}", f"{BUDGET}.anchor.hours: is unknown; did you mean `hour`? (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, per: week, anchor: monday", f"{BUDGET}.anchor: must be a mapping (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, per: day, anchor: {weekday: monday, day: 1}", f"{BUDGET}.anchor.weekday: only goes with `per: week` (line 13)\n{BUDGET}.anchor.day: only goes with `per: month` (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, per: day, alerts: 50", f"{BUDGET}.alerts: must be a list (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, per: day, alerts: [0, 101]", f"{BUDGET}.alerts.0: must be at least 1 (line 13)\n{BUDGET}.alerts.1: must be at most 100 (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, per: day, on_exceeded: blok", f"{EXCEEDED}: must be `block`, or a mapping with `downgrade_to` or `throttle_percent` (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, per: day, on_exceeded: {downgrade: x}", f"{EXCEEDED}.downgrade: is unknown; did you mean `downgrade_to`? (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, per: day, on_exceeded: {downgrade_to: []}", f"{EXCEEDED}.downgrade_to: must be a model's name, or a list of some (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, per: day, on_exceeded: {downgrade_to: [a, a]}", f"{EXCEEDED}.downgrade_to: must name each model once (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, per: day, on_exceeded: {downgrade_to: [a, 5, b*]}", f"{EXCEEDED}.downgrade_to.1: must be text: put it in quotes (line 13)\n{EXCEEDED}.downgrade_to.2: {MODEL_NAMES} (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, per: day, on_exceeded: {downgrade_to: [a1, a2, a3, a4, a5, a6, a7, a8, a9]}", f"{EXCEEDED}.downgrade_to: must have at most 8 entries (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, per: day, on_exceeded: {downgrade_to: [gpt-4o-mini, gpt-5], hard_limit_usd: 6}", f"{EXCEEDED}.downgrade_to.1: matches no model of this policy (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, per: day, on_exceeded: {downgrade_to: gpt-4o-mini}", f"{EXCEEDED}.hard_limit_usd: {NO_END} {{budget_usd: 1000, per: month}} (line 13)"),
    (FIRST_QUOTA, "budget_tokens: 5, per: day, on_exceeded: {throttle_percent: 10}", f"{EXCEEDED}.hard_limit_tokens: {NO_END} {{budget_tokens: 100000000, per: month}} (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, per: day, on_exceeded: {throttle_percent: 100}", f"{EXCEEDED}.throttle_percent: must be at most 99 (line 13)"),
    (FIRST_QUOTA, "budget_usd: 5, per: day, on_exceeded: {throttle_percent: 10, hard_limit_usd: 5}", f"{EXCEEDED}.hard_limit_usd: must be above `budget_usd` (line 13)"),
    (
        "quotas:\n      - {requests_per_minute: 600}",
        "quotas:\n      - {budget_usd: 5, per: day}\n      - {budget_usd: 9, per: day}",
        ("tenants.acme.quotas.1.name: must be set and different: another quota of this "
        "list has the same axis, `per` and partition, or this name (line 14)"),
    ),
]  # fmt: skip
