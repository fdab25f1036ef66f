"""
lua/watch.lua without Envoy: the same LuaJIT, and a handle that is made up.

    watched = Watch().reply([b"data: 1\n\n"], content_type="text/event-stream")
    assert watched.body == b"data: 1\n\n"
    excerpt = read_excerpt(watched.notes)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lupa import luajit21

from tokenweir.envoyconf.filters import watch_source

NATIVE: Mapping[str, object] = {"path": "native"}
STRIPPED: Mapping[str, object] = {"path": "native", "strip_usage": True}
SSE = "text/event-stream"

# As Envoy's wrappers behave: text that is written ends at a NUL, an end of the loop means
# that the body has ended, and a header of several lines is joined.
_HANDLE = rb"""
EnvoyTimestampResolution = { MICROSECOND = 1 }
local notes, writes, errors, times

local metadata = {}
function metadata:get(name) return self.told end
function metadata:set(namespace, key, value)
  assert(namespace == "tokenweir.out", namespace)
  if type(value) == "string" then value = value:match("^%Z*") end
  notes[key], writes = value, writes + 1
end

local headers = {}
function headers:get(name)
  local found
  for _, pair in ipairs(self.pairs) do
    if pair[1] == name then found = found and found .. "," .. pair[2] or pair[2] end
  end
  return found
end
function headers:remove(name)
  for i = #self.pairs, 1, -1 do
    if self.pairs[i][1] == name then table.remove(self.pairs, i) end
  end
end
function headers:replace(name, value)
  self:remove(name)
  self.pairs[#self.pairs + 1] = { name, value }
end
local function each_pair(self)
  local i = 0
  return function()
    i = i + 1
    if self.pairs[i] then return self.pairs[i][1], self.pairs[i][2] end
  end
end
local old_pairs = pairs
function pairs(thing)
  if getmetatable(thing) and getmetatable(thing).__index == headers then return each_pair(thing) end
  return old_pairs(thing)
end

local chunk = {}
function chunk:length() return #self.text end
function chunk:getBytes(from, size) return self.text:sub(from + 1, from + size) end
function chunk:setBytes(text) self.text = text end

local handle = {}
function handle:streamInfo() return self end
function handle:dynamicMetadata() return self.metadata end
function handle:headers() return self.head end
function handle:trailers() return self.has_trailers end
function handle:logErr(text) errors[#errors + 1] = text end
function handle:timestampString() times = times + 1 return string.format("%.0f", 1.7e15 + times) end
function handle:bodyChunks()
  return coroutine.wrap(function()
    local each
    for number, text in ipairs(self.pieces) do
      each = setmetatable({ text = text }, { __index = chunk })
      if number == #self.pieces then self.last = each end
      coroutine.yield(each)
      if each ~= self.last then self.out[#self.out + 1] = each.text end
      if self.cut_after == number then error("cut") end
    end
  end)
end

function run(told, head, pieces, has_trailers, cut_after)
  notes, writes, errors, times = {}, 0, {}, 0
  local one = setmetatable({
    metadata = setmetatable({ told = told }, { __index = metadata }),
    head = setmetatable({ pairs = head }, { __index = headers }),
    pieces = pieces, out = {}, has_trailers = has_trailers, cut_after = cut_after,
  }, { __index = handle })
  local ok, problem = pcall(envoy_on_response, one)
  if one.last then one.out[#one.out + 1] = one.last.text else
    for i = #one.out + 1, cut_after and 0 or #pieces do one.out[i] = pieces[i] end
  end
  return notes, table.concat(one.out), head, writes, errors, ok or problem
end
"""


@dataclass(frozen=True)
class Watched:
    """
    What came of one reply.

    Attributes:
        notes: What was written down, by its keys.
        body: What went on to the app.
        headers: Of the reply, as they went on.
        writes: How often something was written down.
        errors: Lines of the log.
    """

    notes: dict[str, object]
    body: bytes
    headers: list[tuple[str, str]]
    writes: int
    errors: list[str]


class Watch:
    """The script, loaded once; *change* is what a test does to its text."""

    def __init__(self, *changes: tuple[str, str]) -> None:
        source = watch_source()
        for old, new in changes:
            assert old in source, old
            source = source.replace(old, new)
        self._lua = luajit21.LuaRuntime(encoding=None)
        self._lua.execute(source.encode())
        self._lua.execute(_HANDLE)
        self._run = self._lua.globals().run

    def reply(
        self,
        pieces: Sequence[bytes],
        *,
        told: Mapping[str, object] = NATIVE,
        content_type: str = SSE,
        headers: Iterable[tuple[str, str]] = (),
        status: int = 200,
        trailers: bool = False,
        cut_after: int | None = None,
    ) -> Watched:
        """
        Return what comes of a reply whose body arrives in *pieces*.

        *cut_after*: the stream is reset behind so many of them.
        """
        head = [(":status", str(status)), *headers]
        if content_type:
            head.append(("content-type", content_type))
        lines = self._lua.table_from(
            [self._lua.table_from([n.encode(), v.encode("latin-1")]) for n, v in head]
        )
        found = self._run(
            self._table(told), lines, self._lua.table_from(pieces), trailers, cut_after
        )
        notes, body, _, writes, errors, problem = found
        if problem is not True and not (cut_after and b"cut" in problem):
            raise AssertionError(problem)
        return Watched(
            {key.decode(): _python(value) for key, value in notes.items()},
            body,
            [(line[1].decode(), line[2].decode("latin-1")) for line in lines.values()],
            writes,
            [line.decode() for line in errors.values()],
        )

    def _table(self, value: Mapping[str, object]) -> Any:
        return self._lua.table_from(
            {
                name.encode(): self._table(inner)
                if isinstance(inner, Mapping)
                else inner.encode()
                if isinstance(inner, str)
                else inner
                for name, inner in value.items()
            }
        )


def _python(value: object) -> object:
    # As protobuf has it: what is no UTF-8 is refused.
    return value.decode() if isinstance(value, bytes) else value
