-- Takes the usage-only event out of a chat completions stream that it was asked for
-- by the governor and not by the app: `"usage": {…}` without any choice beside it.
--
-- Everything else passes byte for byte, and at once but for the event under way, which
-- waits for its end. No processor is involved, so none that dies can let the event through.
--
-- Lines end as the standard has it: LF, CRLF or CR. A chunk may end between CR and LF;
-- the LF then shares the fate of the event that its CR has ended.
-- https://html.spec.whatwg.org/multipage/server-sent-events.html

local MAX = 16384  -- bytes: a longer event is no usage event, let it go
-- Bytes that are looked at together. Envoy brings a megabyte at once where much has come
-- in; a table of all its lines would hold a hundred times as much.
local SLICE = 65536
local DONE_MAX = 32  -- bytes of a line that says that the stream is over
local COLON = 58

-- Text that a model wrote can't be taken for it: inside of it, quotes are escaped.
local function usage_only(event)
  if not event:find('"usage"', 1, true) then return false end
  event = event:gsub("[\r\n]+data: ?", "")  -- data may be spread over lines
  return event:find('"usage"%s*:%s*{')
    and not event:find('"choices"%s*:%s*%[%s*[^%s%]]')
    and not event:find('"error"%s*:%s*[{"]')
end

-- Whether there may be usage in it that is not null. Most events have no such name at all,
-- and a pattern that begins anywhere is slow.
local function reports(text)
  local at = find(text, 'usage"', 1, true)
  while at do
    if find(text, "^%s*:%s*[^n%s]", at + 6) then return true end
    at = find(text, 'usage"', at + 6, true)
  end
  return false
end

local function ended(text)  -- at the end of an event, whose lines end with LF?
  local a, b, c = text:byte(-3, -1)
  return c == LF and (b == LF or b == CR and a == LF)
end

-- Encoded bodies can't be read; the provider was asked for none. What has a length is
-- no stream, unless it says so; other labels are often wrong.
local function may_be_stream(headers)
  if headers:get("content-encoding") then return false end
  local kind = (headers:get("content-type") or ""):lower()
  return kind:find("^text/event%-stream") or not headers:get("content-length")
end

-- Returns a function that takes the next chunk and returns what of it, and of what was
-- held, is to go on; one that returns what is still held at the end; and one that returns
-- what is held now, as pieces and their number.
local function stripper()
  local held, size = {}, 0 -- of the event under way: what waits for its end, in pieces
  local passing = false    -- the event's beginning is out, so the rest goes too
  local commenting = false -- the same for a comment before it, which ends with its line
  local lines = 0          -- of the event, whole ones
  local blank = true       -- nothing stands on this line so far
  local after_cr, dropped = false, false  -- the last byte; the last event

  local function idle()
    return size == 0 and blank and lines == 0 and not (passing or after_cr)
  end

  local function keep(text)
    held[#held + 1], size = text, size + #text
  end

  local function let_go()
    local text = table.concat(held)
    held, size = {}, 0
    return text
  end

  -- Take *text*, up to the end of a line or of the chunk.
  local function take(text, empty)
    if passing or commenting then return text end
    keep(text)  -- in pieces: to join a million short lines one by one takes minutes
    if lines == 0 and held[1]:byte(1) == COLON then  -- a keep-alive: it must not wait
      commenting = true
      return let_go()
    end
    if size > MAX then
      passing = true
      return let_go()
    end
    if not empty then return "" end
    text = let_go()
    dropped = usage_only(text)
    return dropped and "" or text
  end

  local function scan(data)
    local out, at = {}, 1
    if after_cr and data:byte(1) == LF then
      at = 2
      if size > 0 then keep("\n") elseif not dropped then out[1] = "\n" end
    end
    while at <= #data do
      dropped = false
      local first = data:find("[\r\n]", at)
      local last = first or #data
      if first and data:byte(first) == CR and data:byte(first + 1) == LF then last = first + 1 end
      local empty = blank and first == at
      out[#out + 1] = take(data:sub(at, last), empty)
      blank = first ~= nil
      if empty then lines, passing = 0, false elseif first and not commenting then lines = lines + 1 end
      commenting = commenting and not first
      at = last + 1
    end
    after_cr = data:byte(-1) == CR
    if size > 0 and size <= DONE_MAX and table.concat(held):find("^data: *%[DONE") then
      out[#out + 1], passing = let_go(), true
    end
    return table.concat(out)
  end

  local function feed(data)
    if data == "" then return data end
    if idle() and ended(data) and not reports(data) then return data end
    local out = {}
    for at = 1, #data, SLICE do out[#out + 1] = scan(data:sub(at, at + SLICE - 1)) end
    return table.concat(out)
  end

  local function rest()
    local text = table.concat(held)
    return usage_only(text) and "" or text
  end

  return feed, rest, function() return held, #held end
end
