-- Add to what parts of a tenant's prompts that repeat have cost on a day.
-- It stands alone: no prelude. Whoever sends it sends nothing twice.
--
-- KEYS[1]  the tag's root
-- ARGV[1]  the day since 1970, by the caller's clock: at the latest this one, at the
--          earliest the day before
-- ARGV[2]  the field of the day that has the number of the tenant's members
-- ARGV[3]  the field that has how many texts were new
-- ARGV[4]  how many members the tenant may have in a day
-- ARGV[5]  how many new texts
-- ARGV[6]  for how long all of it is kept, in ms
-- ARGV[7…] of each member: its name, the name under which it is counted once the day is
--          full, the digest and the text to be kept of it or '', and its figures
--
-- A member's figures are one text, "calls tokens …": a fifth of the memory that a field
-- for each would take.
--
-- Fails, and changes nothing, if the server's memory is full.
local FIRST, FIGURES = 7, 6
local ROW = 4 + FIGURES
local DAY_MS = 86400000
local MEMBERS, TEXTS = ARGV[2], ARGV[3]
local max_members, max_texts = tonumber(ARGV[4]), tonumber(ARGV[5])
local kept_ms = ARGV[6]
local today = math.floor(tonumber(redis.call('TIME')[1]) * 1000 / DAY_MS)
local day = math.min(math.max(today - 1, tonumber(ARGV[1])), today)
local key = string.format('%s:p:%.0f', KEYS[1], day)

-- Tell if there is room for one more of what `field` counts, and count it.
local function may_have_more(field, most)
  if tonumber(redis.call('HGET', key, field) or '0') >= most then
    return false
  end
  redis.call('HINCRBY', key, field, 1)
  return true
end

-- Add the figures from ARGV[first] on to `member`, which has `held` or nothing.
local function add(member, held, first)
  local texts, i = {}, 0
  for figure in string.gmatch(held or '', '%d+') do
    i = i + 1
    texts[i] = tonumber(figure)
  end
  for n = 1, FIGURES do
    texts[n] = string.format('%.0f', (texts[n] or 0) + tonumber(ARGV[first + n - 1]))
  end
  redis.call('HSET', key, member, table.concat(texts, ' '))
end

-- Keep a text, or keep it on.
local function keep(digest, text)
  local name = KEYS[1] .. ':pt:' .. digest
  if redis.call('PEXPIRE', name, kept_ms) == 0 and may_have_more(TEXTS, max_texts) then
    redis.call('SET', name, text, 'PX', kept_ms)
  end
end

for first = FIRST, #ARGV, ROW do
  local member, text = ARGV[first], ARGV[first + 3]
  local held = redis.call('HGET', key, member)
  if not held and not may_have_more(MEMBERS, max_members) then
    member, text = ARGV[first + 1], ''
    held = redis.call('HGET', key, member)
  end
  add(member, held, first + 4)
  if text ~= '' then
    keep(ARGV[first + 2], text)
  end
end
redis.call('PEXPIRE', key, kept_ms)
return 1
