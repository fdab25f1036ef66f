-- Merge batches of samples into what is known of estimates of tokens, or forget.
-- Twin of merged() in core/calibration.py. It stands alone: no prelude.
-- Whoever sends it sends nothing twice.
--
-- KEYS[1]  what is known of one tenant's estimates: a hash
-- ARGV[1]  for how long it is kept, in ms
-- ARGV[2]  how many fields it may have; of more, those go that were learned first
-- ARGV[3]  MIN_SAMPLES  ARGV[4] MAX_SAMPLES  ARGV[5] LEAST  ARGV[6] MOST  ARGV[7] STEP
-- ARGV[8]  BATCH_WEIGHT  ARGV[9] MEMORY_WEIGHT  ARGV[10] MAX_SIZE
-- ARGV[11…] of each batch: its field, samples, weight, mean, size; 0 samples: forget it
--
-- A field has "samples weight mean size at_ms". Returns the moment, then of each batch
-- what its field has now, or ''.
--
-- Fails, and changes nothing, if the server's memory is full.
local FIRST, ROW = 11, 5
local kept_ms, max_fields = ARGV[1], tonumber(ARGV[2])
local MIN_SAMPLES, MAX_SAMPLES = tonumber(ARGV[3]), tonumber(ARGV[4])
local LEAST, MOST, STEP = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local BATCH_WEIGHT, MEMORY_WEIGHT = tonumber(ARGV[8]), tonumber(ARGV[9])
local MAX_SIZE = tonumber(ARGV[10])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local known, count = {}, 0
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  known[flat[i]] = flat[i + 1]
  count = count + 1
end

local function clamp(value, least, most)
  return math.min(math.max(value, least), most)
end

-- Return the five figures of `text`, or zeros if it has others.
local function figures(text)
  local found = {}
  for figure in string.gmatch(text or '', '%-?%d+') do
    found[#found + 1] = tonumber(figure)
  end
  if #found ~= 5 then
    found = {0, 0, 0, 0, 0}
  end
  return found
end

local function merged(held, samples, weight, mean, size)
  mean = clamp(mean, LEAST, MOST)
  size = clamp(size, 1, MAX_SIZE)
  weight = clamp(weight, 1, BATCH_WEIGHT)
  if held[1] >= MIN_SAMPLES then
    mean = clamp(mean, held[3] - STEP, held[3] + STEP)
  end
  local total = held[2] + weight
  return string.format('%.0f %.0f %.0f %.0f %.0f',
    math.min(MAX_SAMPLES, held[1] + samples),
    math.min(MEMORY_WEIGHT, total),
    held[3] + math.floor(weight * (mean - held[3]) / total),
    held[4] + math.floor(weight * (size - held[4]) / total),
    now)
end

local answer, changed, is_less = {string.format('%.0f', now)}, {}, false
for first = FIRST, #ARGV, ROW do
  local field, samples = ARGV[first], tonumber(ARGV[first + 1])
  local text = nil
  if samples > 0 then
    if not known[field] then
      count = count + 1
    end
    text = merged(figures(known[field]), samples, tonumber(ARGV[first + 2]),
      tonumber(ARGV[first + 3]), tonumber(ARGV[first + 4]))
  elseif known[field] then
    count, is_less = count - 1, true
  end
  known[field] = text
  changed[field] = text
  answer[#answer + 1] = text or ''
end

while count > max_fields do
  local oldest, at = nil, nil
  for field, text in pairs(known) do
    local learned = figures(text)[5]
    if not at or learned < at or (learned == at and field < oldest) then
      oldest, at = field, learned
    end
  end
  known[oldest] = nil
  count, is_less = count - 1, true
end

-- Where fields go all is written anew: that needs no right to delete one.
if is_less then
  redis.call('DEL', KEYS[1])
  changed = known
end
local fields = {}
for field, text in pairs(changed) do
  fields[#fields + 1] = field
  fields[#fields + 1] = text
end
if #fields > 0 then
  redis.call('HSET', KEYS[1], unpack(fields))
  redis.call('PEXPIRE', KEYS[1], kept_ms)
end
return answer
