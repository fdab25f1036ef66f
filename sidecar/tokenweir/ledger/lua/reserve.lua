-- Take amounts from every limit of a tag, or from none. Twin of Tag.reserve().
--
-- ARGV[2]   how long the hold lives, in ms
-- ARGV[3…]  the share: see read_share
--
-- Fails, and changes nothing, if the server's memory is full.
--
-- Returns {verdict, epoch, reaped, rows, crossings}: verdict 1 granted, 0 denied, -1
-- the hold ended already, -2 the windows do not cover the present, which rows tell in
-- ms; else rows as text, joined by ',': "n 1 remaining reset_ms" for the n-th limit if
-- it is taken from (only if granted), "n 0 used reserved wait_ms" if it does not fit,
-- and behind it what is added to the wait, if the limit staggers who it refuses.
local hold_ms = whole(MAX_DURATION_MS)
local share = read_share()
local epoch = begin_if_there_is_memory()
local reaped = reap(REAPED_PER_CALL)

local known = load_hold(share.hold_id)
if known then
  write_levels()
  if known.answer then
    return {1, epoch, reaped, known.answer, crossings}
  end
  return {-1, epoch, reaped, '', crossings}
end
if is_stale(share.limits) then
  write_levels()
  return {-2, epoch, reaped, digits(now), crossings}
end

local rows, fitting, refused, buckets, occupied = {}, {}, {}, {}, {}
local is_denied = false
for i, limit in ipairs(share.limits) do
  local used, reserved, wait = 0, 0, 0
  if limit.axis == 'concurrency' then
    reserved = in_flight(limit.key)
    occupied[limit.key] = reserved
    if reserved + share.slots > limit.capacity then
      wait = slot_wait_of(limit.key, limit.capacity)
    end
  elseif BUDGETS[limit.axis] then
    local first, last = window_at(limit.turns, now)
    local spending = spending_of(limit.key, first, last)
    local requested = amount_of(limit.axis, share.amounts)
    used, reserved = spending.spent, spending.reserved
    if requested > 0 and requested > limit.most - used - reserved then
      wait = spending.last - now
    end
  else
    local bucket = tuned(limit)
    used, reserved = used_of(bucket), bucket.reserved
    wait = wait_of(bucket, amount_of(limit.axis, share.amounts))
    buckets[limit.key] = bucket
  end
  limit.n = i
  -- Budgets in shadow mode count all the same.
  if wait == 0 or BUDGETS[limit.axis] then
    append(fitting, limit)
  else
    append(refused, limit)
  end
  if wait > 0 then
    append(rows, string.format('%.0f 0 %.0f %.0f %.0f', i, used, reserved, wait))
    limit.row, limit.wait = #rows, wait
    is_denied = is_denied or not limit.is_shadow
  end
end

if is_denied then
  rebase(share.limits)
  for _, limit in ipairs(refused) do
    if limit.is_staggered then
      local offset = stagger(limit, amount_of(limit.axis, share.amounts))
      rows[limit.row] = rows[limit.row] .. ' ' .. digits(offset)
    end
  end
  write_levels()
  return {0, epoch, reaped, table.concat(rows, ','), crossings}
end

rebase(refused)
for _, limit in ipairs(fitting) do
  if buckets[limit.key] then
    set_bucket(limit.key, buckets[limit.key])
  end
end
local hold = blank(share, now, fitting)
local until_ms = now + hold_ms
move(share.hold_id, hold, share.amounts, until_ms)
for _, limit in ipairs(fitting) do
  local left, reset
  if limit.axis == 'concurrency' then
    left = limit.capacity - occupied[limit.key] - share.slots
    reset = median_of(limit.key) or UNKNOWN_WAIT_MS
  elseif BUDGETS[limit.axis] then
    local spending = spending_of(limit.key, window_at(limit.turns, now))
    left, reset = limit.capacity - spending.spent - spending.reserved, spending.last - now
  else
    local bucket = loaded[limit.key]
    left, reset = floor_div(bucket.level, UNITS_PER_TOKEN), reset_of(bucket)
  end
  append(rows, string.format('%.0f 1 %.0f %.0f', limit.n, math.max(0, left), reset))
end
hold.answer = table.concat(rows, ',')
keep(share.hold_id, hold, share.amounts, until_ms)
write_levels()
return {1, epoch, reaped, hold.answer, crossings}
