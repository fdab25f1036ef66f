"""Numbers as arguments."""

from __future__ import annotations

import argparse

import pytest

from tokenweir.cli.numbers import number, port


def test_the_ends_of_a_range_are_in_it() -> None:
    """The least and the most are taken, and leading zeros mean nothing."""
    read = number(1, 10_000)

    assert [read(text) for text in ("1", "024", "10000")] == [1, 24, 10_000]


@pytest.mark.parametrize(
    "text",
    ["0", "10001", "-1", "+1", "1.5", "abc", "", " 1", "1_0", "²", "٣", "9" * 5000],
)
def test_whatever_else_is_told_the_range(text: str) -> None:
    """What is no whole number in the range is answered by the range, whatever it is."""
    with pytest.raises(argparse.ArgumentTypeError, match=r"^must be 1 to 10,000$"):
        number(1, 10_000)(text)


@pytest.mark.parametrize("text", ["abc", "99999", "0"])
def test_ports(text: str) -> None:
    """A port is told as one."""
    with pytest.raises(argparse.ArgumentTypeError, match="a TCP port, 1 to 65,535"):
        port(text)
