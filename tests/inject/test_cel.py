"""Objects are written as CEL has them."""

from __future__ import annotations

from typing import Any

import pytest

from tokenweir.inject.cel import literal, typed


@pytest.mark.parametrize(
    ("value", "expression"),
    [
        ("a", '"a"'),
        ('quote " \\ ü 😀 \n', '"quote \\" \\\\ ü 😀 \\n"'),
        (7, "7"),
        (True, "true"),
        (None, "null"),
        ([], "[]"),
        ({}, "{}"),
        (
            {"name": "x", "ports": [{"containerPort": 1}]},
            '{"name": "x", "ports": [{"containerPort": 1}]}',
        ),
    ],
)
def test_literals(value: Any, expression: str) -> None:
    """Maps have keys of text, and everything is in quotes that is text."""
    assert literal(value) == expression


def test_typed() -> None:
    """Each object has the type of its place; those of a list that of the list."""
    value = {"name": "A", "valueFrom": {"secretKeyRef": {"key": "k"}}, "n": [1]}

    assert typed([value], "Object.spec.containers.env") == (
        '[Object.spec.containers.env{name: "A", '
        "valueFrom: Object.spec.containers.env.valueFrom{"
        'secretKeyRef: Object.spec.containers.env.valueFrom.secretKeyRef{key: "k"}}, '
        "n: [1]}]"
    )
