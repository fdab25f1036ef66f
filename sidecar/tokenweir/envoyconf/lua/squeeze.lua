-- Makes long JSON short, as it comes: of a long string, and of a long row of numbers, only
-- the beginning stays. What comes out is valid if what went in is, and has every member.
--
-- Nobody reads pictures, sound, vectors, or a text that usage is reported of: what is
-- looked for stands between and behind them.

local LONG = 1024           -- bytes: what is longer is cut there
local MOST_ESCAPED = 12     -- bytes of a character: \ud83d\ude00
local MOUTHFUL = 512        -- bytes that are looked at together, at least
local MARKS = { "]", "}", "[", "{" }

-- Return where a string is to be cut, at `last` or a bit before: no escape and no character
-- is parted. What began before `first` is over within MOST_ESCAPED bytes.
local function string_cut(text, first, last)
  local slash = find(text, "\\", first, true)
  while slash and slash <= last do
    local size = sub(text, slash + 1, slash + 1) == "u" and 6 or 2
    if slash + size - 1 > last then last = slash - 1 break end
    slash = find(text, "\\", slash + size, true)
  end
  if find(sub(text, last - 5, last), "^\\u[dD][89abAB]") then last = last - 6 end
  for _ = 1, 3 do
    local c = byte(text, last + 1)
    if not c or c < 128 or c > 191 then break end
    last = last - 1
  end
  return last
end

-- Return the first bracket in text[from..to], or to + 1; `ahead` remembers the next of each.
local function next_bracket(text, from, to, ahead)
  local first = to + 1
  for i, mark in ipairs(MARKS) do
    if not ahead[i] or ahead[i] < from then ahead[i] = find(text, mark, from, true) or math.huge end
    if ahead[i] < first then first = ahead[i] end
  end
  return first
end

-- Return a table: feed(text), text(), and
--   taken  bytes that are in it, or were left out
--   full   what came out is more than `most` bytes: nothing is taken any more
local function squeezer(most)
  local self = { taken = 0, full = false }
  local out, size = {}, 0
  local in_string, escaped = false, false
  local run = 0             -- bytes since the last quote, or bracket
  local skipping = false    -- the rest of this string, or of this row
  local few, few_size = {}, 0

  local function emit(text)
    if text ~= "" then out[#out + 1], size = text, size + #text end
  end

  -- Take text[from..to], which is in a string.
  local function take_string(text, from, to)
    if not skipping and run + to - from + 1 > LONG then
      local last = math.max(from + LONG - run, from + MOST_ESCAPED) - 1
      if last < to then
        last = string_cut(text, escaped and from + 1 or from, last)
        emit(sub(text, from, last))
        skipping = true
      end
    end
    if not skipping then emit(sub(text, from, to)) end
  end

  -- Take text[from..to], which is between strings.
  local function take_row(text, from, to)
    local ahead = {}
    while from <= to do
      local stop = next_bracket(text, from, to, ahead)
      if skipping then
        if stop > to then return end
        if byte(text, stop) == 91 or byte(text, stop) == 123 then emit(",") end
        skipping, run, from = false, 0, stop
      else
        local comma = run + stop - from > LONG and find(text, ",", math.max(from, from + LONG - run), true)
        if comma and comma < stop then
          emit(sub(text, from, comma - 1))
          skipping, from = true, comma
        else
          emit(sub(text, from, math.min(stop, to)))
          run = stop > to and run + to - from + 1 or 0
          from = stop + 1
        end
      end
    end
  end

  -- Whether the last byte of text[from..to] escapes the next one.
  local function escapes(text, from, to)
    local slash = to
    while slash >= from and byte(text, slash) == BACKSLASH do slash = slash - 1 end
    local is_odd = (to - slash) % 2 == 1
    -- All of them: the first may have been escaped itself.
    if slash < from and escaped then return not is_odd end
    return is_odd
  end

  local function chew(text)
    self.taken = self.taken + #text
    local from, at = 1, 1    -- what has yet to go out; what has yet to be looked at
    while at <= #text do
      local quote
      if in_string then
        quote = closing_quote(text, escaped and at + 1 or at)
      else
        quote = find(text, '"', at, true)
      end
      local stop = quote and quote - 1 or #text
      if skipping or run + stop - at + 1 > LONG then
        emit(sub(text, from, at - 1))
        if in_string then take_string(text, at, stop) else take_row(text, at, stop) end
        from = stop + 1
        if in_string then run = run + stop - at + 1 end
      else
        run = run + stop - at + 1
      end
      if quote then
        if skipping and not in_string then emit(",") end  -- the row goes on with strings
        in_string, run, skipping, escaped = not in_string, 0, false, false
      else
        escaped = in_string and escapes(text, at, stop)
      end
      at = stop + 2
    end
    emit(sub(text, from))
    self.full = size > most
  end

  function self.feed(text)
    if self.full then return end
    few[#few + 1], few_size = text, few_size + #text
    if few_size < MOUTHFUL then return end
    text, few, few_size = concat(few), {}, 0
    chew(text)
  end

  function self.text()
    chew(concat(few))
    few, few_size = {}, 0
    return concat(out)
  end

  return self
end
