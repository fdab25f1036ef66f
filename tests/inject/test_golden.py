"""What is made of manifests of all kinds is as it was looked at, and valid."""

from __future__ import annotations

from typing import Any

import pytest

from tests.inject.api_server import defaulted
from tests.inject.golden_pods import FOLDER, GOLDEN
from tests.inject.kube_schema import SchemaError, check
from tokenweir.inject.manifest import inject_manifest, uninject_manifest
from tokenweir.inject.options import settings_with
from tokenweir.inject.pod import inject
from tokenweir.inject.yaml_text import read

CASES = pytest.mark.parametrize("name", GOLDEN)


def expected(name: str) -> Any:
    """Return what was looked at."""
    (document,) = read((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return document


def pod_of(document: Any) -> Any:
    """Return the pod in a *document*."""
    spec = document["spec"]
    spec = spec.get("jobTemplate", {"spec": spec})["spec"]
    return spec.get("template", document)


def test_there_is_no_other() -> None:
    """Each file is of a case, and there are enough of them."""
    assert {path.stem for path in FOLDER.glob("*.yaml")} == GOLDEN.keys()
    assert len(GOLDEN) >= 30


@CASES
def test_as_it_was_looked_at(name: str) -> None:
    """Not a field is another, and who gets none has the reason."""
    golden = GOLDEN[name]
    result = golden.result()
    (report,) = result.reports

    assert result.document == expected(name)
    assert (
        None if report.obstacle is None else report.obstacle.reason
    ) == golden.reason
    assert report.changed is (golden.reason is None)


@CASES
def test_there_and_back(name: str) -> None:
    """What was added goes without a trace, also out of the file."""
    assert uninject_manifest(expected(name)).document == GOLDEN[name].document


@CASES
def test_again(name: str) -> None:
    """A second time changes nothing, nor does it once an API server has stored it."""
    golden = GOLDEN[name]
    settings = settings_with(golden.settings, golden.given)
    stored = defaulted(pod_of(expected(name)))

    assert inject_manifest(expected(name), settings).document == expected(name)
    assert inject(stored, settings).pod is stored


@CASES
def test_kubernetes_takes_it(name: str) -> None:
    """Every version that it is for, to the letter."""
    check(expected(name), *GOLDEN[name].versions)


def test_old_versions_would_refuse_native_sidecars() -> None:
    """So the check can fail, and the plain way is needed."""
    with pytest.raises(SchemaError, match=r"1\.27: .*restartPolicy"):
        check(expected("deployment"), 27, 27)
