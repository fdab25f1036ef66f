-- The levels of the limits under a tag. Twin of tokenweir.core.bucket, .slots, .budget,
-- .stagger and .levels.
--
-- root:b:<limit>  a bucket: "level as_of reserved rate capacity", level in 1/60,000
--                 token, as_of in ms; forgotten when it is full and nothing reserved
-- root:s:<limit>  slots: hold ids by expiry (ms)
-- root:d:<limit>  the median of how long slots were held, in ms
-- root:w:<start>:<limit>  a budget in the window that starts then:
--                 "spent reserved told end", in nano-USD or tokens, percent, ms
-- root:c:<limit>  when the last caller that was refused was told to come back, in ms;
--                 of a limit that tenants share "<limit>|<queue>", for each of them
--
-- Buckets and budgets are read once and written once a call, by `write_levels`.
local loaded, changed = {}, {}
local spendings, spent = {}, {}
local crossings = {}

local BUDGETS = {budget_usd = true, budget_tokens = true}

local function amount_of(axis, amounts)
  if axis == 'requests_per_minute' then
    return amounts.requests
  elseif axis == 'tokens_per_minute' or axis == 'budget_tokens' then
    return amounts.input + amounts.output
  elseif axis == 'input_tokens_per_minute' then
    return amounts.input
  elseif axis == 'output_tokens_per_minute' then
    return amounts.output
  elseif axis == 'concurrency' then
    return 1
  elseif axis == 'budget_usd' then
    return amounts.cost
  end
  error('unknown axis')
end

local function reset_of(bucket)
  return ceil_div(bucket.capacity * UNITS_PER_TOKEN - bucket.level, bucket.rate)
end

-- Return the bucket as it stands now: a clock that stepped back earns nothing.
local function refill(bucket)
  local elapsed = math.min(math.max(0, now - bucket.as_of), reset_of(bucket))
  local ceiling = bucket.capacity * UNITS_PER_TOKEN
  bucket.level = math.min(bucket.level + elapsed * bucket.rate, ceiling)
  bucket.as_of = now
  return bucket
end

-- Return the bucket of a limit as it stands now; one that is not known is full.
local function bucket_of(key, rate, capacity)
  if loaded[key] then
    return loaded[key]
  end
  local bucket = {level = capacity * UNITS_PER_TOKEN, as_of = now, reserved = 0,
                  rate = rate, capacity = capacity}
  local stored = redis.call('GET', root .. ':b:' .. key)
  if stored then
    local level, as_of, reserved, old_rate, old_capacity =
      string.match(stored, '^(%-?%d+) (%d+) (%d+) (%d+) (%d+)$')
    bucket = {level = tonumber(level), as_of = tonumber(as_of),
              reserved = tonumber(reserved), rate = tonumber(old_rate),
              capacity = tonumber(old_capacity), is_ahead = tonumber(as_of) > now}
    refill(bucket)
  end
  loaded[key] = bucket
  return bucket
end

-- Return a copy of the limit's bucket under the rate and capacity that hold now: what
-- was used stays used.
local function tuned(limit)
  local bucket = bucket_of(limit.key, limit.rate, limit.capacity)
  local level = bucket.level + (limit.capacity - bucket.capacity) * UNITS_PER_TOKEN
  return {level = math.max(-MAX_TOKENS * UNITS_PER_TOKEN, level), as_of = now, reserved = bucket.reserved,
          rate = limit.rate, capacity = limit.capacity}
end

local function set_bucket(key, bucket)
  loaded[key] = bucket
  changed[key] = true
end

-- Return the time until `tokens` fit, rounded up; 0: they fit now.
local function wait_of(bucket, tokens)
  local lacking = tokens * UNITS_PER_TOKEN - bucket.level
  if tokens == 0 or lacking <= 0 then
    return 0
  end
  return ceil_div(lacking, bucket.rate)
end

local function used_of(bucket)
  local level = floor_div(bucket.level, UNITS_PER_TOKEN)
  return math.max(0, bucket.capacity - level - bucket.reserved)
end

local function book(taken, debit, reserve)
  if debit == 0 and reserve == 0 then
    return
  end
  local bucket = bucket_of(taken.key, taken.rate, taken.capacity)
  bucket.level = clamp(-MAX_TOKENS * UNITS_PER_TOKEN,
                       bucket.level - debit * UNITS_PER_TOKEN,
                       bucket.capacity * UNITS_PER_TOKEN)
  bucket.reserved = math.max(0, bucket.reserved + reserve)
  changed[taken.key] = true
end

-- Return the start and the end of the window between two of `turns` that `moment` is
-- in, or nil.
local function window_at(turns, moment)
  for i = 1, #turns - 1 do
    if turns[i] <= moment and moment < turns[i + 1] then
      return turns[i], turns[i + 1]
    end
  end
  return nil
end

-- Return what became of a budget in the window from `first` to `last`.
local function spending_of(key, first, last)
  local name = digits(first) .. ':' .. key
  if not spendings[name] then
    local spending = {last = last, spent = 0, reserved = 0, told = 0}
    local stored = redis.call('GET', root .. ':w:' .. name)
    if stored then
      local spent_so_far, reserved, told, stored_last =
        string.match(stored, '^(%d+) (%d+) (%d+) (%d+)$')
      spending = {spent = tonumber(spent_so_far), reserved = tonumber(reserved),
                  told = tonumber(told), last = tonumber(stored_last)}
    end
    spendings[name] = spending
  end
  return spendings[name], name
end

-- Return the highest threshold (percent, parted by '/') that `amount` has reached.
local function passed(amount, capacity, thresholds)
  local highest = 0
  for text_of_percent in string.gmatch(thresholds, '%d+') do
    local percent = tonumber(text_of_percent)
    local hundredth = floor_div(capacity, 100)
    local share = hundredth * percent
                  + floor_div((capacity - hundredth * 100) * percent, 100)
    if amount >= share then
      highest = math.max(highest, percent)
    end
  end
  return highest
end

local function spend(taken, amount, reserve)
  if amount == 0 and reserve == 0 then
    return
  end
  local spending, name = spending_of(taken.key, taken.first, taken.last)
  spending.spent = clamp(0, spending.spent + amount, MAX_SPENT)
  spending.reserved = math.max(0, spending.reserved + reserve)
  local percent = passed(spending.spent, taken.capacity, taken.thresholds)
  if percent > spending.told then
    spending.told = percent
    crossings[#crossings + 1] =
      string.format('%.0f %.0f %.0f %.0f %.0f %s', percent, spending.spent,
                    taken.capacity, taken.first, taken.last, taken.key)
  end
  spent[name] = true
end

-- Give the buckets and budgets that were changed back to the store.
local function write_levels()
  for name in pairs(spent) do
    local spending = spendings[name]
    local value = string.format('%.0f %.0f %.0f %.0f', spending.spent,
                                spending.reserved, spending.told, spending.last)
    local kept_ms = math.max(0, spending.last - now) + SPENDING_KEPT_MS
    redis.call('SET', root .. ':w:' .. name, value, 'PX', digits(kept_ms))
  end
  for key in pairs(changed) do
    local bucket = loaded[key]
    local kept_ms = reset_of(bucket) + BUCKET_GRACE_MS
    if bucket.reserved > 0 then
      kept_ms = math.max(kept_ms, HOLD_KEPT_MS)
    end
    local value = string.format('%.0f %.0f %.0f %.0f %.0f', bucket.level, bucket.as_of,
                                bucket.reserved, bucket.rate, bucket.capacity)
    redis.call('SET', root .. ':b:' .. key, value, 'PX', digits(kept_ms))
  end
end

-- For limits that were refused: take the clock's word where it stepped back and the
-- policy's where it changed, and give a bucket that somehow has no expiry one.
local function rebase(limits)
  for _, limit in ipairs(limits) do
    local bucket = loaded[limit.key]
    if bucket and (bucket.is_ahead or bucket.rate ~= limit.rate
                   or bucket.capacity ~= limit.capacity
                   or redis.call('PTTL', root .. ':b:' .. limit.key) == -1) then
      set_bucket(limit.key, tuned(limit))
    end
  end
end

-- Drop the slots that expired, and return how many are left.
local function in_flight(key)
  local slots = root .. ':s:' .. key
  redis.call('ZREMRANGEBYSCORE', slots, '-inf', digits(now))
  return redis.call('ZCARD', slots)
end

local function median_of(key)
  return tonumber(redis.call('GET', root .. ':d:' .. key) or nil)
end

local function slot_wait_of(key, capacity)
  local median = median_of(key)
  if not median then
    return UNKNOWN_WAIT_MS
  end
  return math.max(MIN_WAIT_MS, ceil_div(median, capacity))
end

-- Return what is added to the wait of a refused caller, and move the limit's cursor.
-- Nothing else reads it.
local function stagger(limit, amount)
  local name = root .. ':c:' .. limit.key
  if limit.queue ~= '-' then
    name = name .. '|' .. limit.queue
  end
  local cursor = tonumber(redis.call('GET', name) or 0)
  local first = now + limit.wait
  local place = first
  if cursor > now then
    local step
    if limit.axis == 'concurrency' then
      local median = median_of(limit.key)
      step = median and ceil_div(median, limit.capacity) or MIN_WAIT_MS
    else
      step = ceil_div(amount * UNITS_PER_TOKEN, limit.rate)
    end
    local room = WINDOW_MS
    if limit.wait <= PATIENCE_MS then
      room = math.min(WINDOW_MS, PATIENCE_MS - limit.wait)
    end
    place = math.max(first, cursor + step)
    if place - first > room then
      place = first
    end
  end
  redis.call('SET', name, digits(place), 'PX', digits(place - now + CURSOR_GRACE_MS))
  return place - first
end

-- Return what the n-th slot of a hold is called: the first after itself.
local function slot_name(hold_id, n)
  return n == 1 and hold_id or hold_id .. '/' .. digits(n - 1)
end

-- Have a hold of `was` slots take `count` of them, or none if there is no `until_ms`.
local function occupy(key, hold_id, was, count, until_ms)
  local slots = root .. ':s:' .. key
  local kept = until_ms and count or 0
  for n = kept + 1, math.max(1, was, count) do
    redis.call('ZREM', slots, slot_name(hold_id, n))
  end
  for n = 1, kept do
    redis.call('ZADD', slots, digits(until_ms), slot_name(hold_id, n))
  end
  if kept > 0 then
    redis.call('PEXPIRE', slots, digits(HOLD_KEPT_MS))
  end
end

-- Read all levels that are about to move: should one of them be no level, none has moved.
-- A call that is about one hold writes nothing then; one about several has to.
local is_batch = false
local function look_at(list)
  for _, taken in ipairs(list) do
    if taken.axis == 'concurrency' then
      redis.call('ZCARD', root .. ':s:' .. taken.key)
      median_of(taken.key)
    elseif BUDGETS[taken.axis] then
      spending_of(taken.key, taken.first, taken.last)
    else
      bucket_of(taken.key, taken.rate, taken.capacity)
    end
  end
end

-- Debit the limits of `hold` by `amounts` instead of by what they were.
-- `until_ms`: when slots expire; nil: it is not held from now on.
local function move(hold_id, hold, amounts, until_ms)
  if is_batch then
    look_at(hold.taken)
  end
  for _, taken in ipairs(hold.taken) do
    local amount = amount_of(taken.axis, amounts)
    local was_reserved = hold.state == 'held' and taken.amount or 0
    local reserve = (until_ms and amount or 0) - was_reserved
    if taken.axis == 'concurrency' then
      amount = hold.slots
      occupy(taken.key, hold_id, taken.amount, amount, until_ms)
    elseif BUDGETS[taken.axis] then
      spend(taken, amount - taken.amount - reserve, reserve)
    else
      book(taken, amount - taken.amount, reserve)
    end
    taken.amount = amount
  end
end

-- Take note of how long the slots of `hold` were held; 0: unknown.
local function learn_duration(hold, duration)
  for _, taken in ipairs(hold.taken) do
    if taken.axis == 'concurrency' and duration > 0 then
      local median = median_of(taken.key)
      local moved = duration
      if median then
        local step = math.max(1, floor_div(median, 8))
        moved = clamp(median - step, duration, median + step)
      end
      redis.call('SET', root .. ':d:' .. taken.key, digits(moved),
                 'PX', digits(LEARNED_KEPT_MS))
    end
  end
end

-- Take note of how fast a model is, in tokens per 1,000 s.
local function learn_rate(model, tokens, duration)
  if tokens == 0 or duration == 0 then
    return
  end
  local sample = floor_div(math.min(tokens, 1000000000) * 1000000, duration)
  sample = math.min(MAX_RATE, sample)
  local rate = tonumber(redis.call('HGET', root .. ':r', model) or nil)
  if rate then
    sample = rate + floor_div(sample - rate, 8)
  end
  redis.call('HSET', root .. ':r', model, digits(sample))
  redis.call('PEXPIRE', root .. ':r', digits(LEARNED_KEPT_MS))
end
