-- How units of a response are written down: whole, or as what differs from one before.
--
-- Metadata is text: it must be UTF-8, and Envoy cuts it at a NUL. So what is neither is
-- coded, byte by byte. RS ends a record, US stands between its parts.

local find, sub, byte, match, gsub = string.find, string.sub, string.byte, string.match, string.gsub
local concat = table.concat
local LF, CR, QUOTE, BACKSLASH = 10, 13, 34, 92
local RS, US = "\30", "\31"

local CODED = { ["\0"] = "\196\128", ["\30"] = "\196\158", ["\31"] = "\196\159" }
for c = 128, 255 do
  CODED[string.char(c)] = string.char(192 + math.floor(c / 64), 128 + c % 64)
end

-- Whether text has no byte above 127. Patterns take 7 ns for each; eight at once take one.
local has_ffi, ffi = pcall(require, "ffi")
local is_ascii
if has_ffi then
  local bit = require("bit")
  local words = ffi.typeof("const uint32_t *")
  is_ascii = function(text)
    local all, count = 0, math.floor(#text / 4)
    local word = ffi.cast(words, text)
    for i = 0, count - 1 do all = bit.bor(all, word[i]) end
    for i = 4 * count + 1, #text do all = bit.bor(all, byte(text, i)) end
    return bit.band(all, 0x80808080) == 0
  end
else
  is_ascii = function(text) return match(text, "^[%z\1-\127]*()") > #text end
end

-- As strict as protobuf is: no overlong forms, no halves of surrogate pairs.
local function is_utf8(text)
  if is_ascii(text) then return true end
  if find(text, "\224[\128-\159]") or find(text, "\237[\160-\191]")
    or find(text, "\240[\128-\143]") or find(text, "\244[\144-\191]") then return false end
  text = gsub(text, "[\240-\244][\128-\191][\128-\191][\128-\191]", ".")
  text = gsub(text, "[\224-\239][\128-\191][\128-\191]", ".")
  text = gsub(text, "[\194-\223][\128-\191]", ".")
  return is_ascii(text)
end

local function has_marks(text)
  return find(text, RS, 1, true) or find(text, US, 1, true) or find(text, "\0", 1, true)
end

local function coded_record(unit)
  return "#" .. gsub(unit, "[%z\30\31\128-\255]", CODED) .. RS
end

local function raw_record(unit)
  if has_marks(unit) or not is_utf8(unit) then return coded_record(unit) end
  return "=" .. unit .. RS
end

-- Where the string ends that `from` is in: its closing quote, or nil.
local function closing_quote(text, from)
  local at = from
  while true do
    local quote = find(text, '"', at, true)
    if not quote then return nil end
    local slash = quote
    while slash > from and byte(text, slash - 1) == BACKSLASH do slash = slash - 1 end
    if (quote - slash) % 2 == 0 then return quote end
    at = quote + 1
  end
end

-- === templates ===================================================================
--
-- The events of a stream look alike: they differ in the text of a string or two, and in
-- a number. A template is what they have in common, in pieces; between two of them there
-- is a value. Only texts and numbers are values, and none is empty: whatever else
-- changes, be it a member or null, makes an event that is written down whole.

local MAX_PIECES = 12
local LEAST_BYTES = 32  -- of a template: less is not worth it

-- Where the value ends in which two units begin to differ; `from`: where it begins.
local function value_end(text, from, in_string)
  local last
  if in_string then last = closing_quote(text, from) else last = match(text, "^[%d.]+()", from) end
  if last and last > from then return last end
end

-- Return the pieces that two units have in common, or nil.
local function learn(old, new)
  local pieces, size = {}, 0
  local i, j = 1, 1           -- where the piece under way begins in each of them
  local in_string = false     -- at that place
  while #pieces < MAX_PIECES do
    local p, q, quote = i, j, nil
    local c = byte(new, q)
    while c and c == byte(old, p) do
      if c == QUOTE then
        in_string, quote = not in_string, q
      elseif c == BACKSLASH and in_string then
        if byte(old, p + 1) ~= byte(new, q + 1) then break end
        p, q = p + 1, q + 1
      end
      p, q = p + 1, q + 1
      c = byte(new, q)
    end
    if p > #old and q > #new then
      pieces[#pieces + 1] = sub(new, j)
      if size + #new - j + 1 < LEAST_BYTES then return nil end
      return pieces
    end
    -- Back to where the value begins in which they differ.
    local from = q
    if in_string then from = quote + 1 else
      while from > j and find(sub(new, from - 1, from - 1), "[%d.]") do from = from - 1 end
    end
    local old_end = value_end(old, from - j + i, in_string)
    local new_end = value_end(new, from, in_string)
    if not (old_end and new_end) then return nil end
    pieces[#pieces + 1] = sub(new, j, from - 1)
    size = size + from - j
    i, j = old_end, new_end
  end
end

-- A value is digits, or may hold what a string in JSON may: no end of it, no control
-- characters.
local function is_value(text, in_string)
  if not in_string then return find(text, "^[%d.]+$") ~= nil end
  if not find(text, '[%c"\127-\255]') then return true end
  if find(text, "%c") then return false end
  if find(text, '"', 1, true) and find((gsub(text, "\\.", "")), '"', 1, true) then return false end
  return is_utf8(text)
end

-- Return what of a unit differs from the template, as a record; nil: more than values.
local function by_template(pieces, unit)
  local count, first = #pieces, pieces[1]
  if count == 1 then return unit == first and ":" .. RS or nil end
  if find(unit, first, 1, true) ~= 1 then return nil end
  local at, values = #first + 1, nil
  for i = 2, count do
    local piece, start = pieces[i], nil
    if i < count then start = find(unit, piece, at, true) else
      start = #unit - #piece + 1
      if start > at and find(unit, piece, start, true) ~= start then return nil end
    end
    if not start or start <= at then return nil end
    local value = sub(unit, at, start - 1)
    if not is_value(value, byte(pieces[i - 1], -1) == QUOTE) then return nil end
    values = values and values .. US .. value or value
    at = start + #piece
  end
  return ":" .. values .. RS
end
