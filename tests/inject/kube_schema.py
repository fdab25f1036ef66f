"""
Kubernetes' own schemas, strictly: a field that is unknown is an error.

They are those of kubernetes-validate, and so is the way to read them; but each is read
and crawled once, for there are many versions and many manifests.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from jsonschema import Draft202012Validator
from kubernetes_validate import utils
from referencing import Registry, Resource

FIRST, LAST = 29, 37


class SchemaError(Exception):
    """A manifest that a version would not take, and why."""


def check(document: dict[str, Any], first: int = FIRST, last: int = LAST) -> None:
    """Raise SchemaError unless versions 1.*first* to 1.*last* take *document*."""
    api_version = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", document["apiVersion"])
    for minor in range(first, last + 1):
        validator = _validator(f"1.{minor}.0", document["kind"].lower(), api_version)
        for error in validator.iter_errors(document):
            path = ".".join(map(str, error.absolute_path))
            raise SchemaError(f"1.{minor}: {path}: {error.message[:500]}")


@functools.cache
def _validator(version: str, kind: str, api_version: str) -> Draft202012Validator:
    folder = f"kubernetes-json-schema/v{version}-local-strict"
    schema = utils.schema_contents(f"{folder}/{kind}-{api_version}.json", version)
    registry = Resource.from_contents(schema) @ _definitions(folder, version)
    return Draft202012Validator(schema, registry=registry)


@functools.cache
def _definitions(folder: str, version: str) -> Registry[Any]:
    contents = utils.schema_contents(f"{folder}/_definitions.json", version)
    return (Resource.from_contents(contents) @ Registry()).crawl()
