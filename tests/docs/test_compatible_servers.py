"""The page on compatible servers says what is so."""

from __future__ import annotations

import re
from pathlib import Path

from tests.compatible_servers import SERVERS
from tokenweir.config.load import load_policy

PAGE = Path("docs/compatible-servers.md").read_text()
ENVIRONMENT = {"VLLM_API_KEY": "a", "MISTRAL_API_KEY": "b"}


def test_the_policy_can_be_used(tmp_path: Path) -> None:
    """Its example has no problem, and asks only whom it may ask."""
    found = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    path = tmp_path / "policy.yaml"
    path.write_text(found[1])

    providers = load_policy(path, ENVIRONMENT).providers

    assert providers["vllm"].ask_for_usage
    assert not providers["mistral"].ask_for_usage


def test_every_server_that_is_tried_is_there() -> None:
    """Its table names all that tests play."""
    table = PAGE.partition("## What is known of each")[2]
    names = {server.name.removeprefix("Hugging Face's ") for server in SERVERS}

    assert len(names) == len(SERVERS) >= 18
    assert [name for name in sorted(names) if name not in table] == []
