"""
YAML in, YAML out, without a value that means something else afterwards.

PyYAML reads YAML 1.1, Kubernetes' tools a mixture of 1.1 and 1.2: ``1e3``, ``0o17`` and
``12:30`` are different things to them. So what stands in a manifest without quotes is
written as it stood, whatever it means; what is text is quoted as soon as anybody could
take it for something else. Comments are lost; the
order of keys is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from tokenweir.core.errors import TokenweirError

# Nobody takes them for anything but what they are.
_WHOLE_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_TRUTH = {"true": True, "True": True, "TRUE": True}
_UNTRUTH = {"false": False, "False": False, "FALSE": False}
_NOTHING = ("", "~", "null", "Null", "NULL")
# A text that begins so, and is none of these words, is text to every reader.
_PLAIN_TEXT = re.compile(r"-{0,2}[A-Za-z_/][^\x00-\x1f\x7f-\x9f]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TEXT = "tag:yaml.org,2002:str"
_WORDS = frozenset(
    {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}
)


class YamlError(TokenweirError):
    """That is no YAML. The text says where, and what is wrong there."""


class Verbatim(str):
    """A value as it stood in a file, without quotes."""

    __slots__ = ()


def read(text: str) -> Iterator[Any]:
    """Yield the documents of *text*; empty ones, too. Raises: YamlError."""
    try:
        yield from yaml.load_all(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise YamlError(f"{where}{error.problem or 'is no YAML'}") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise YamlError("is no YAML, or holds what no text holds") from None


def written(documents: list[Any]) -> str:
    """Return *documents* as YAML."""
    return "---\n".join(
        yaml.dump(
            document,
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            width=2**31,  # no text is folded
            default_flow_style=False,
        )
        for document in documents
    )


class _Loader(yaml.SafeLoader):
    """Knows whole numbers, true, false and null, and keeps the rest as it stands."""

    def compose_scalar_node(self, anchor: dict[str, yaml.Node]) -> yaml.ScalarNode:
        """Return the next node; what is said to be text is like in quotes."""
        explicit = self.peek_event().tag  # type: ignore[no-untyped-call]
        node = super().compose_scalar_node(anchor)
        if explicit == _TEXT:
            node.style = '"'
        return node


class _Dumper(yaml.SafeDumper):
    """Writes text so that it stays text, and every value where it stands."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        """Say no to anchors."""
        return True


def _scalar(_: _Loader, node: yaml.ScalarNode) -> Any:
    value = node.value
    if node.style is not None:  # in quotes, or a block: text
        return _whole(value)
    if _WHOLE_NUMBER.fullmatch(value):
        return int(value)
    for words in (_TRUTH, _UNTRUTH):
        if value in words:
            return words[value]
    return None if value in _NOTHING else Verbatim(value)


def _whole(text: str) -> str:
    """Put pairs of surrogates together: JSON writes so what is beyond 16 bits."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# What a plain scalar can be to PyYAML. `!!binary` and such are explicit, and stay text.
for _tag in ("bool", "int", "float", "null", "str", "timestamp", "value"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _scalar)


def _verbatim(dumper: yaml.SafeDumper, text: Verbatim) -> yaml.ScalarNode:
    """Return a node that is written without quotes."""
    tag = dumper.resolve(  # type: ignore[no-untyped-call]
        yaml.ScalarNode, str(text), (True, False)
    )
    return yaml.ScalarNode(tag, str(text))


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    if _PLAIN_TEXT.fullmatch(text) and text.strip("-").lower() not in _WORDS:
        style = None  # the emitter quotes it if it has to
    else:
        style = "|" if "\n" in text else '"'
    return dumper.represent_scalar(_TEXT, text, style=style)


_Dumper.add_representer(Verbatim, _verbatim)
_Dumper.add_representer(str, _text)
