"""The files in envoy/ are what `tokenweir render` prints, and Envoy accepts them."""

import shlex
from pathlib import Path

import pytest
import yaml

from tokenweir.cli.main import main
from tokenweir.envoyconf.validate import problem_of

ENVOY = Path(__file__).parents[2] / "envoy"
README = (ENVOY / "README.md").read_text().replace("\\\n", " ")
COMMANDS = [
    shlex.split(line)[1:]
    for line in README.splitlines()
    if line.startswith("tokenweir render ")
]


def test_every_file_has_its_command() -> None:
    """The README tells how each configuration was made, and lists it."""
    outputs = {command[command.index("--out") + 1] for command in COMMANDS}
    files = {path.name for path in ENVOY.glob("*.yaml")}

    assert outputs == {name for name in files if not name.endswith(".policy.yaml")}
    assert all(f"]({name})" in README for name in files)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[3])
def test_rendered_again(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is checked in is what is rendered today."""
    monkeypatch.chdir(ENVOY)
    name = command[command.index("--out") + 1]
    again = tmp_path / name
    arguments = [str(again) if word == name else word for word in command]

    assert main(arguments) == 0
    assert again.read_text() == (ENVOY / name).read_text()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[3])
def test_envoy_accepts_it(command: list[str]) -> None:
    """The real Envoy would start with it."""
    text = (ENVOY / command[command.index("--out") + 1]).read_text()

    assert problem_of(yaml.safe_load(text)) is None
