"""
Typed reading of a request's members.

Each function takes a value and *param*, the path that the client is told if the
value has the wrong type. null is read as absent, as providers do. None of the
messages quotes the value. All of them raise `MalformedRequestError`.
"""

from __future__ import annotations

from typing import Any

from tokenweir.core.errors import MalformedRequestError

# Longer names are no models: they would only fill labels and the ledger's keys.
MAX_MODEL_CHARS = 256

# OpenAI takes 64 characters, Anthropic 256, and clients put JSON into it.
MAX_USER_CHARS = 1_024

# No model can be asked for more. Sums of such figures stay exact in the ledger.
MAX_TOKENS = 10**9


def model_name(value: object) -> str:
    """Return *value* if it can be the name of a model."""
    if not isinstance(value, str) or not value:
        raise MalformedRequestError("`model` must be the name of a model.", "model")
    if len(value) > MAX_MODEL_CHARS:
        raise MalformedRequestError(
            f"`model` is longer than {MAX_MODEL_CHARS} characters.", "model"
        )
    if value != value.strip() or not value.isprintable():
        raise MalformedRequestError(
            "`model` must not begin or end with a blank, nor hold characters that "
            "can't be seen.",
            "model",
        )
    return value


def user_id(value: object, param: str) -> str:
    """Return the end user's id, ``""`` if absent."""
    user = string(value, param)
    if len(user) > MAX_USER_CHARS:
        raise MalformedRequestError(
            f"`{param}` is longer than {MAX_USER_CHARS} characters.", param
        )
    return user


def integer(value: object, param: str, high: int = MAX_TOKENS) -> int | None:
    """Return *value* if it is an integer from 1 to *high*, None if absent."""
    if value is None:
        return None
    if type(value) is not int or not 1 <= value <= high:
        raise MalformedRequestError(
            f"`{param}` must be an integer from 1 to {high}.", param
        )
    return value


def flag(value: object, param: str) -> bool:
    """Return *value* if it is true or false, False if absent."""
    if value is None or isinstance(value, bool):
        return bool(value)
    raise MalformedRequestError(f"`{param}` must be true or false.", param)


def string(value: object, param: str) -> str:
    """Return *value* if it is a string, ``""`` if absent."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise MalformedRequestError(f"`{param}` must be a string.", param)


def mapping(value: object, param: str) -> dict[str, Any]:
    """Return *value* if it is an object, an empty one if absent."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise MalformedRequestError(f"`{param}` must be an object.", param)


def array(value: object, param: str) -> list[Any]:
    """Return *value* if it is an array, an empty one if absent."""
    if value is None:
        return []
    if isinstance(value, list):
        return value
    raise MalformedRequestError(f"`{param}` must be an array.", param)


def objects(value: object, param: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the objects that *value* is an array of, each with its own param."""
    return [
        (f"{param}[{position}]", mapping(item, f"{param}[{position}]"))
        for position, item in enumerate(array(value, param))
    ]
