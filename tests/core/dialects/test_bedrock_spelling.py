"""Members that look like ours are not taken for something else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tokenweir.core.dialects import bedrock, bedrock_prompt
from tokenweir.core.dialects.bedrock_spelling import NAMES, check_spelling
from tokenweir.core.errors import MalformedRequestError

_READ = re.compile(r'(?:fields\.\w+\(\w+, |\.get\(|\w\[)"(\w+)"')


@pytest.mark.parametrize(
    "body",
    [
        {"InferenceConfig": {}},
        {"inferenceconfig": {}},
        {"messages": [{"role": "user", "content": [{"Text": "Hi"}]}]},
        {"toolConfig": {"tools": [{"TOOLSPEC": {}}]}},
        {"a": [[{"\u017fystem": []}]]},
    ],
)
def test_other_capitals(body: dict[str, Any]) -> None:
    """A name that differs in its case only is refused, wherever it is."""
    with pytest.raises(MalformedRequestError, match="written so"):
        check_spelling(body)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": [{"role": "user", "content": [{"text": "Text"}]}]},
        {"messages": [{"content": [{"toolUse": {"input": {"Text": 1, "NAME": 2}}}]}]},
        {
            "toolConfig": {
                "tools": [{"toolSpec": {"inputSchema": {"json": {"Type": 1}}}}]
            }
        },
        {"requestMetadata": {"Name": "a"}, "promptVariables": {"Text": {"text": "a"}}},
        {"additionalModelRequestFields": {"System": "a"}},
        {"T" * 40: 1, "unknown": {"other": [1, "Text", None]}},
    ],
)
def test_what_is_the_clients_own(body: dict[str, Any]) -> None:
    """Names that are ours, nobody's, or the client's own are left alone."""
    check_spelling(body)


def test_every_name_that_is_read_is_known() -> None:
    """No module of Converse reads a member whose other cases would pass."""
    sources = [
        Path(str(each.__file__)).read_text() for each in (bedrock, bedrock_prompt)
    ]
    read = {name for source in sources for name in _READ.findall(source)}

    assert len(read) > 15
    assert read <= NAMES
