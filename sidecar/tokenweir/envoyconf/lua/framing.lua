-- Cuts a body into units: events with the empty line behind them, frames, elements of an
-- array. Each takes the next bytes of the body and says `finish(last_bytes)` at the end of
-- a unit, `keep(bytes)` of one that goes on, and asks `size()` what is kept of it.

-- Events end with an empty line; lines end as the standard has it: LF, CRLF or CR. Empty
-- lines before an event say nothing, and belong to no unit.
local function event_framing(finish, keep, size)
  local blank = true       -- nothing stands on this line so far
  local after_cr = false   -- the last byte, which an LF may belong to

  -- Return where the event ends that text[from..] is in, or nil.
  local function event_end(text, from, has_cr)
    local at = from
    while true do
      local last = find(text, has_cr and "[\r\n]" or "\n", at, not has_cr)
      if not last then
        blank = blank and at > #text
        return nil
      end
      local empty = blank and last == at
      if byte(text, last) == CR and byte(text, last + 1) == LF then last = last + 1 end
      blank = true
      if empty then return last end
      at = last + 1
    end
  end

  return function(text)
    if size() == 0 and not after_cr then  -- one whole event, as most chunks are
      if find(text, "\n\n", 1, true) == #text - 1 and byte(text, 1) ~= LF then return finish(text) end
      if find(text, "\r\n\r\n", 1, true) == #text - 3 and byte(text, 1) ~= CR then return finish(text) end
    end
    local at, from = 1, 1
    if after_cr and byte(text, 1) == LF then
      at = 2
      if size() == 0 then from = 2 end
    end
    after_cr = byte(text, -1) == CR
    local has_cr = find(text, "\r", 1, true) ~= nil
    while true do
      if from == at and size() == 0 then
        at = match(text, "^[\r\n]*()", at)
        from, blank = at, true
      end
      if from > #text then return end
      local last = event_end(text, at, has_cr)
      if not last then return keep(sub(text, from)) end
      finish(sub(text, from, last))
      from, at = last + 1, last + 1
    end
  end
end

-- Elements of an array: what its own brackets and the commas between are, goes with them.
local function array_framing(finish, keep)
  local depth, in_string, escaped = 0, false, false

  return function(text)
    local at, from = 1, 1
    while at <= #text do
      if in_string then
        local quote = closing_quote(text, escaped and at + 1 or at)
        if not quote then
          local slash = #text
          while slash >= at and byte(text, slash) == BACKSLASH do slash = slash - 1 end
          local is_odd = (#text - slash) % 2 == 1
          if slash < at and escaped then is_odd = not is_odd end
          escaped = is_odd
          break
        end
        in_string, escaped, at = false, false, quote + 1
      else
        at = find(text, '["%[%]{}]', at)
        if not at then break end
        local c = byte(text, at)
        if c == QUOTE then in_string = true
        elseif c == 91 or c == 123 then depth = depth + 1
        else
          depth = depth - 1
          if depth == 1 then
            finish(sub(text, from, at))
            from = at + 1
          end
        end
        at = at + 1
      end
    end
    keep(sub(text, from))
  end
end

local PRELUDE = 12              -- bytes of a frame that say how long it is
local LEAST_FRAME = 16
local MOST_FRAME = 2 ^ 25

local function frame_length(prelude)
  local a, b, c, d = byte(prelude, 1, 4)
  return ((a * 256 + b) * 256 + c) * 256 + d
end

-- Frames of AWS, which say how long they are. If one can't be, nobody knows where the next
-- one begins: what comes then is cut as it comes.
local function frame_framing(finish, keep, size)
  local start, length, lost = "", nil, false

  return function(text)
    local at = 1
    if start == "" and not (length or lost) and #text >= LEAST_FRAME and frame_length(text) == #text then
      return finish(text)
    end
    while at <= #text do
      if lost then return finish(sub(text, at)) end
      if not length then
        local piece = sub(text, at, at + PRELUDE - #start - 1)
        start, at = start .. piece, at + #piece
        if #start < PRELUDE then return keep(piece) end
        length, start = frame_length(start), ""
        lost = length < LEAST_FRAME or length > MOST_FRAME
        keep(piece)
      else
        local left = length - size()
        local piece = sub(text, at, at + left - 1)
        at = at + #piece
        if #piece < left then return keep(piece) end
        length = nil
        finish(piece)
      end
    end
  end
end
