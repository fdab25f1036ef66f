"""Members of a request have the right type, or the client is told which has not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tokenweir.core.dialects import fields
from tokenweir.core.errors import MalformedRequestError

CANARY = "CANARY"
# Where a dialect reads a member: by a function of `fields`, or at once.
_READ = re.compile(r'(?:fields\.\w+\(\w+, |\.get\(|\w\[)"(\w+)"')


def complaint(read: Callable[[], object]) -> MalformedRequestError:
    """Return what *read* raises."""
    with pytest.raises(MalformedRequestError) as caught:
        read()
    assert CANARY not in caught.value.message
    return caught.value


@pytest.mark.parametrize(
    "name", ["gpt-4o", "a", "x" * 256, "org/model:7b@v1", "modèle 7", "模型"]
)
def test_model_names(name: str) -> None:
    """A model may be called whatever can be seen."""
    assert fields.model_name({"model": name}) == name


@pytest.mark.parametrize(
    "value",
    [
        None,
        5,
        True,
        ["a"],
        {"a": 1},
        "",
        " gpt-4o",
        "gpt-4o ",
        "gpt-4o\n",
        "gpt-4o\0",
        "gpt\u20284o",
        "gpt\u00a04o",
        "\ufeffgpt-4o",
        "x" * 257,
        "x" * 100_000,
    ],
)
def test_no_model_names(value: object) -> None:
    """What can't be a label is no model."""
    assert complaint(lambda: fields.model_name({"model": value})).param == "model"
    assert complaint(lambda: fields.model_name({})).param == "model"


@pytest.mark.parametrize("value", [1, 2, 16_384, 10**9])
def test_integers(value: int) -> None:
    """Integers in range are what they are."""
    assert fields.integer({"n": value}, "n") == value


@pytest.mark.parametrize(
    "value", [0, -1, True, False, 1.0, 1e400, "12", [], {}, 10**9 + 1, 10**30]
)
def test_no_integers(value: object) -> None:
    """Booleans, fractions, strings and figures out of range are no integers."""
    error = complaint(lambda: fields.integer({"n": value}, "n"))

    assert error.param == "n"
    assert error.message == "`n` must be an integer from 1 to 1000000000."


@pytest.mark.parametrize(
    ("value", "told"), [(-1, True), (-2, False), (-1.0, False), (True, False)]
)
def test_no_cap_at_all(value: object, told: bool) -> None:
    """Only the integer -1 stands for it; null and absent are no cap either way."""
    assert fields.is_unlimited({"max_tokens": value}, "max_tokens") is told
    assert not fields.is_unlimited({"max_tokens": None}, "max_tokens")
    assert not fields.is_unlimited({}, "max_tokens")


def test_tier() -> None:
    """It is cut to what can be a name; empty is absent."""
    assert fields.tier({"service_tier": "flex"}) == "flex"
    assert fields.tier({"service_tier": ""}) is None
    assert fields.tier({}) is None


def test_limits_of_its_own() -> None:
    """A member may have limits of its own."""
    assert fields.integer({"n": 128}, "n", high=128) == 128
    assert fields.integer({"n": 0}, "n", low=0) == 0
    assert complaint(lambda: fields.integer({"n": 129}, "n", high=128)).param == "n"
    assert complaint(lambda: fields.integer({"n": -1}, "n", low=0)).param == "n"


@pytest.mark.parametrize("holder", [{}, {"x": None}])
def test_absent(holder: dict[str, Any]) -> None:
    """null is absent, and each type has its own nothing."""
    assert fields.integer(holder, "x") is None
    assert fields.flag(holder, "x") is False
    assert fields.string(holder, "x") == ""
    assert fields.user_id(holder, "x") == ""
    assert fields.mapping(holder, "x") == {}
    assert fields.array(holder, "x") == []
    assert fields.objects(holder, "x") == []
    assert fields.text_or_array(holder, "x", "y") == ""


def test_present() -> None:
    """What has the right type is taken as it is."""
    assert fields.flag({"x": True}, "x") is True
    assert fields.flag({"x": False}, "x") is False
    assert fields.string({"x": "a"}, "x") == "a"
    assert fields.user_id({"x": "u" * 1_024}, "x") == "u" * 1_024
    assert fields.mapping({"x": {"a": 1}}, "x") == {"a": 1}
    assert fields.array({"x": [1]}, "x") == [1]
    assert fields.objects({"x": [{}, {"a": 1}]}, "x", "y") == [
        ("y.x[0]", {}),
        ("y.x[1]", {"a": 1}),
    ]
    assert fields.text_or_array({"x": "a"}, "x", "y") == "a"
    assert fields.text_or_array({"x": [1]}, "x", "y") == [1]


@pytest.mark.parametrize(
    ("read", "wrong"),
    [
        (fields.flag, ["true", 1, 0, [], {}]),
        (fields.string, [1, True, [CANARY], {CANARY: 1}]),
        (fields.user_id, [1, "u" * 1_025]),
        (fields.mapping, [CANARY, 1, [], True]),
        (fields.array, [CANARY, 1, {}, True]),
        (fields.objects, [CANARY, 1, {}]),
        (fields.text_or_array, [1, {}, True]),
    ],
)
def test_wrong_types(
    read: Callable[[dict[str, Any], str, str], object], wrong: list[object]
) -> None:
    """The client is told the path of what has the wrong type, and not its value."""
    for value in wrong:
        error = complaint(lambda value=value: read({"x": value}, "x", "y[0]"))  # type: ignore[misc]

        assert error.param == "y[0].x"
        assert error.message.startswith("`y[0].x` must ")


def test_wrong_item() -> None:
    """The client is told which item of an array is no object."""
    error = complaint(lambda: fields.objects({"x": [{}, CANARY]}, "x"))

    assert error.param == "x[1]"


def test_messages() -> None:
    """Messages are objects with a role each."""
    found = fields.messages({"messages": [{"role": "user"}, {"role": "x", "y": 1}]})

    assert found == [
        ("messages[0]", {"role": "user"}),
        ("messages[1]", {"role": "x", "y": 1}),
    ]
    assert fields.messages({"messages": []}) == []


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": CANARY}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": [CANARY]}, "messages[0]"),
        ({"messages": [None]}, "messages[0]"),
        ({"messages": [{}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}, {"role": ""}]}, "messages[1].role"),
        ({"messages": [{"role": 5}]}, "messages[0].role"),
    ],
)
def test_no_messages(body: dict[str, Any], param: str) -> None:
    """A request without messages, or with one that has no role, is none."""
    assert complaint(lambda: fields.messages(body)).param == param


@pytest.mark.parametrize("name", ["Model", "MODEL", "mOdEl"])
def test_names_in_other_cases(name: str) -> None:
    """A name that a lax reader takes for one that is read is refused, and named."""
    error = complaint(lambda: fields.check_names({"x": CANARY, name: CANARY}, "y[0]"))

    assert error.param == "y[0].model"
    assert error.message == "`y[0].model` must be written so, in lower case."


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("me\u017fsages", "messages"),  # the long s
        ("MAX_TO\u212aENS", "max_tokens"),  # the Kelvin sign
        ("Max_Completion_Tokens", "max_completion_tokens"),
        ("N", "n"),
        ("Stream_Options", "stream_options"),
    ],
)
def test_names_that_fold_to_others(name: str, meant: str) -> None:
    """What Unicode folds is the same name to some readers, too."""
    assert complaint(lambda: fields.check_names({name: 1})).param == meant


@pytest.mark.parametrize(
    "holder",
    [
        {},
        {"model": 1, "messages": 2, "n": 3},
        {"temperature": 1, "Temperature": 2, "X": 3, "model_": 4, " model": 5},
        {"M" * 100: 1, "MODEL" * 20: 1},
    ],
)
def test_names_that_are_like_no_other(holder: dict[str, Any]) -> None:
    """What nobody here reads may be called whatever."""
    fields.check_names(holder)


@pytest.mark.parametrize(
    ("read", "holder", "param"),
    [
        (fields.mapping, {"x": {"Include_Usage": 1}}, "y.x.include_usage"),
        (fields.mapping, {"metadata": {"User_Id": 1}}, "y.metadata.user_id"),
        (fields.objects, {"x": [{}, {"Role": 1}]}, "y.x[1].role"),
        (fields.text_or_array, {"x": ["a", {"type": 1, "Type": 1}]}, "y.x[1].type"),
    ],
)
def test_names_within(
    read: Callable[[dict[str, Any], str, str], object],
    holder: dict[str, Any],
    param: str,
) -> None:
    """Wherever an object is looked into, its names are."""
    [name] = holder

    assert complaint(lambda: read(holder, name, "y")).param == param


@pytest.mark.parametrize("name", ["parameters", "input_schema", "metadata"])
def test_names_of_the_clients_own(name: str) -> None:
    """Schemas and notes may have names like ours."""
    value = {"Model": 1, "NAME": 2}

    assert fields.mapping({name: value}, name) == value


def test_every_name_that_is_read_is_known() -> None:
    """No module of a dialect reads a member whose other cases would pass."""
    folder = Path(fields.__file__).parent
    # Bedrock's names are not all in lower case, and have a list of their own.
    modules = {*folder.glob("*_prompt.py")} - {folder / "bedrock_prompt.py"}
    modules |= {folder / "openai_chat.py"}
    sources = [
        module.read_text() for module in (*modules, folder / "anthropic_messages.py")
    ]
    read = {name for source in sources for name in _READ.findall(source)}

    assert len(read) > 20
    assert read <= fields.KNOWN_NAMES
