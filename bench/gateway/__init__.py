"""
What a gateway costs, as ratios to Envoy alone in the same run: `python -m bench.gateway`.

    capabilities  what this build of Tokenweir can do, by its own help and schema
    variants      what is compared: how each is started, and which capability it needs
    loads         which requests, on how many connections, how fast
    stand         starts a variant: Envoy, processors, ledger
    upstream      the provider: a process that answers at once, or in paced chunks
    client        the apps: a process that asks, and tells what it saw
    processes     CPU and memory of processes, from /proc
    commandstats  what a Redis has been asked
    rounds        every variant in turn, several times over
    summary       medians and ranges of rounds, and ratios to Envoy alone
    checks        what makes figures worthless: errors, unsettled usage, missing ones
    table, plot   what people read
    shown         the goals, and whether they are met
    correctness   over-admission: many processors, many streams, one ledger
    scale         how cost grows with tenants, prompts, workers, streams and sidecars

Rule 1: **CPU is the robust figure.** All processes share the machine's cores, so what
passes in a second is a lower bound; what an exchange costs is not.

Rule 2: a variant whose capability this build lacks is skipped, and a line says so.

Rule 3: numbers may be bad, but not broken: see `checks`.
"""
