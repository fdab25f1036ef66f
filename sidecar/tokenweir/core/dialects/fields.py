"""
Typed reading of a request's members.

Each function takes the object that holds the member, its name, and where the
object is in the body (``""`` for the body itself); the client is told the path if
the type is wrong. null is read as absent, as providers do. No message quotes a
value. All of them raise `MalformedRequestError`.

Some servers (those in Go above all) take `Model` for `model`, and the last of both
wins. So a name that differs from one that is read here in its case only is refused,
wherever it could be read: who is metered by one must not be served by the other.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from tokenweir.core.errors import MalformedRequestError

# Longer names are no models: they would only fill labels and the ledger's keys.
MAX_MODEL_CHARS = 256

# OpenAI takes 64 characters, Anthropic 256, and clients put JSON into it.
MAX_USER_CHARS = 1_024

# Longer names are no tiers of service: there is no price for them either way.
MAX_TIER_CHARS = 64

# No model can be asked for more. Sums of such figures stay exact in the ledger.
MAX_TOKENS = 10**9
# In a cap's place: as long as it takes.
UNLIMITED = -1

Members = dict[str, Any]

# All members that are read, at whatever place.
KNOWN_NAMES = frozenset(
    {
        *("model", "messages", "system", "n", "max_tokens", "max_completion_tokens"),
        *("stream", "stream_options", "include_usage"),
        *("user", "safety_identifier", "metadata", "user_id"),
        *("service_tier", "modalities"),
        *("tools", "functions", "tool_choice", "function_call", "tool_calls"),
        *("response_format", "json_schema", "output_config", "output_format"),
        *("format", "schema"),
        *("role", "content", "name", "refusal", "reasoning", "reasoning_content"),
        *("function", "custom", "arguments", "input"),
        *("description", "parameters", "input_schema"),
        *("prompt", "best_of", "instructions", "max_output_tokens"),
        *("background", "output", "encrypted_content", "file_url", "filename"),
        *("type", "text", "title", "context", "source", "data"),
        *("thinking", "budget_tokens", "thought", "truncation", "context_management"),
        *("image_url", "audio_url", "video_url", "url", "detail"),
        *("input_audio", "file", "file_data", "level", "web_search_options"),
    }
)
# Objects whose names are the client's own, and what is read of them all the same.
_FREE_NAMES = {
    "parameters": frozenset[str](),
    "input_schema": frozenset[str](),
    "metadata": frozenset({"user_id"}),
}
# Longer ones are like none of them.
_MAX_NAME_CHARS = 32


def check_names(
    holder: Members, path: str = "", known: AbstractSet[str] = KNOWN_NAMES
) -> None:
    """Refuse a name that differs from one of *known* in its case only."""
    if holder.keys() <= known:
        return
    for name in holder:
        if name in known or len(name) > _MAX_NAME_CHARS:
            continue
        # The long s and the Kelvin sign are such differences, too, for Go.
        meant = name.casefold()
        if meant in known:
            raise _wrong(_param(meant, path), "must be written so, in lower case")


def model_name(body: Members) -> str:
    """Return the name of the model that *body* asks for."""
    name = body.get("model")
    if not isinstance(name, str) or not name:
        raise _wrong("model", "must be the name of a model")
    if len(name) > MAX_MODEL_CHARS:
        raise _wrong("model", f"must have at most {MAX_MODEL_CHARS} characters")
    if name != name.strip() or not name.isprintable():
        raise _wrong("model", "must have no blanks around it and no hidden characters")
    return name


def user_id(holder: Members, name: str, path: str = "") -> str:
    """Return the end user's id, ``""`` if absent."""
    user = string(holder, name, path)
    if len(user) > MAX_USER_CHARS:
        param = _param(name, path)
        raise _wrong(param, f"must have at most {MAX_USER_CHARS} characters")
    return user


def integer(
    body: Members, name: str, *, low: int = 1, high: int = MAX_TOKENS
) -> int | None:
    """Return an integer from *low* to *high*, None if absent."""
    value = body.get(name)
    if value is None:
        return None
    if type(value) is not int or not low <= value <= high:
        raise _wrong(name, f"must be an integer from {low} to {high}")
    return value


def is_unlimited(body: Members, name: str) -> bool:
    """Tell if the cap *name* is -1: to LM Studio, llama.cpp and others no cap at all."""
    return type(body.get(name)) is int and body[name] == UNLIMITED


def flag(holder: Members, name: str, path: str = "") -> bool:
    """Return true or false, False if absent."""
    value = holder.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise _wrong(_param(name, path), "must be true or false")


def string(holder: Members, name: str, path: str = "") -> str:
    """Return a string, ``""`` if absent."""
    value = holder.get(name)
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise _wrong(_param(name, path), "must be a string")


def tier(holder: Members) -> str | None:
    """Return the tier of service that is asked for, None if absent."""
    return string(holder, "service_tier")[:MAX_TIER_CHARS] or None


def mapping(holder: Members, name: str, path: str = "") -> Members:
    """Return an object, an empty one if absent."""
    value = holder.get(name)
    if isinstance(value, dict):
        known = _FREE_NAMES.get(name, KNOWN_NAMES)
        check_names(value, _param(name, path), known)
        return value
    if value is None:
        return {}
    raise _wrong(_param(name, path), "must be an object")


def array(holder: Members, name: str, path: str = "") -> list[Any]:
    """Return an array, an empty one if absent."""
    value = holder.get(name)
    if isinstance(value, list):
        return value
    if value is None:
        return []
    raise _wrong(_param(name, path), "must be an array")


def objects(holder: Members, name: str, path: str = "") -> list[tuple[str, Members]]:
    """Return the objects of an array, each with its own path."""
    found = []
    for position, item in enumerate(array(holder, name, path)):
        where = f"{_param(name, path)}[{position}]"
        if not isinstance(item, dict):
            raise _wrong(where, "must be an object")
        check_names(item, where)
        found.append((where, item))
    return found


def messages(body: Members) -> list[tuple[str, Members]]:
    """Return the messages, each with its own path; there must be an array of them."""
    if body.get("messages") is None:
        raise _wrong("messages", "is missing")
    found = objects(body, "messages")
    for path, message in found:
        if not string(message, "role", path):
            raise _wrong(f"{path}.role", "is missing")
    return found


def text_or_array(holder: Members, name: str, path: str) -> str | list[Any]:
    """Return a string or an array, ``""`` if absent."""
    value = holder.get(name)
    if isinstance(value, list):
        for position, item in enumerate(value):
            if isinstance(item, dict) and not item.keys() <= KNOWN_NAMES:
                check_names(item, f"{_param(name, path)}[{position}]")
        return value
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise _wrong(_param(name, path), "must be a string or an array")


def _param(name: str, path: str) -> str:
    return f"{path}.{name}" if path else name


def _wrong(param: str, what: str) -> MalformedRequestError:
    return MalformedRequestError(f"`{param}` {what}.", param)
