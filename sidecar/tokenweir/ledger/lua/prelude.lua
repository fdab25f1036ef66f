-- Begins every script: the clock, the reading of arguments, whole numbers.
--
-- KEYS[1]  the tag's root, "{tw:017}": every other key begins with it, so all keys of
--          a call lie in one Cluster slot; see tokenweir.ledger.keys
-- ARGV[1]  now in ms, or '' for the server's own clock (tests set it)
--
-- Full memory: a server at `maxmemory` refuses the first write of a script if that may
-- need memory, and asks no more after the first. So the first write decides for all of
-- them. Those of reserve and tally are refused: nothing new begins. Every other script
-- first does what is never refused (`write_anyway`, or GETEX in `begin`), for it accounts
-- for what has begun, and gives back more than it takes.
--
-- Constants in CAPITALS are put in front by tokenweir.ledger.scripts, out of the core:
-- no number stands in two places.
--
-- Rule: a large number never becomes text by `tostring`, `..` or cjson, which would
-- make 1e+15 of it, but by `digits`. Every key that is written gets its expiry here,
-- in the same script.
local root = KEYS[1]
local cursor = 0

-- A newer version may have given the tag another format. Then nothing is read, and
-- nothing changed: it would not understand us either.
local format = tonumber(redis.call('GET', root .. ':f') or FORMAT)
if format ~= FORMAT then
  return redis.error_reply('NEWFORMAT this version knows ' .. FORMAT)
end

-- Return the next argument.
local function text()
  cursor = cursor + 1
  return ARGV[cursor]
end

-- Return the next argument as a whole number from 0 to `most`, or fail.
local function whole(most)
  local number = tonumber(text())
  if not number or number < 0 or number > most or number ~= math.floor(number) then
    error('argument ' .. cursor .. ' is out of range')
  end
  return number
end

-- Return the next arguments, a number and that many pairs, as a list.
local function pairs_list()
  local list = {}
  for i = 1, 2 * whole(MAX_PAIRS) do
    list[i] = text()
  end
  return list
end

local function digits(number)
  return string.format('%.0f', number)
end

-- Return the quotient of whole numbers, rounded down: exact, which `/` is not when
-- the quotient is large.
local function floor_div(a, b)
  local quotient = math.floor(a / b)
  if quotient * b > a then
    quotient = quotient - 1
  end
  return quotient
end

local function ceil_div(a, b)
  return -floor_div(-a, b)
end

local function clamp(least, number, most)
  return math.min(math.max(least, number), most)
end

-- Let this script write even if memory is full: nothing has that name.
local function write_anyway()
  redis.call('DEL', root .. ':none')
end

local time = redis.call('TIME')
local wall = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local now = wall
if text() ~= '' then
  cursor = 0
  now = whole(MAX_MOMENT_MS)
end
