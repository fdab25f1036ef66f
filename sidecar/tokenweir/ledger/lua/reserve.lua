-- Take amounts from every limit of a tag, or from none. Twin of Tag.reserve().
--
-- ARGV[2]   how long the hold lives, in ms
-- ARGV[3…]  the share: see read_share
--
-- Fails, and changes nothing, if the server's memory is full.
--
-- Returns {verdict, epoch, reaped, rows}: verdict 1 granted, 0 denied, -1 the hold
-- ended already; rows as text, joined by ',': "n 1 remaining reset_ms" for the n-th
-- limit if it fits (only if granted), "n 0 used reserved wait_ms" if it does not.
local hold_ms = whole(MAX_DURATION_MS)
local share = read_share()
local epoch = begin_if_there_is_memory()
local reaped = reap(REAPED_PER_CALL)

local known = load_hold(share.hold_id)
if known then
  write_buckets()
  if known.answer then
    return {1, epoch, reaped, known.answer}
  end
  return {-1, epoch, reaped, ''}
end

local rows, fitting, refused, buckets, occupied = {}, {}, {}, {}, {}
local is_denied = false
for i, limit in ipairs(share.limits) do
  local used, reserved, wait = 0, 0, 0
  if limit.axis == 'concurrency' then
    reserved = in_flight(limit.key)
    occupied[limit.key] = reserved
    if reserved >= limit.capacity then
      wait = slot_wait_of(limit.key, limit.capacity)
    end
  else
    local bucket = tuned(limit)
    used, reserved = used_of(bucket), bucket.reserved
    wait = wait_of(bucket, amount_of(limit.axis, share.amounts))
    buckets[limit.key] = bucket
  end
  if wait == 0 then
    limit.n = i
    append(fitting, limit)
  else
    append(refused, limit)
    append(rows, string.format('%.0f 0 %.0f %.0f %.0f', i, used, reserved, wait))
    is_denied = is_denied or not limit.is_shadow
  end
end

if is_denied then
  rebase(share.limits)
  write_buckets()
  return {0, epoch, reaped, table.concat(rows, ',')}
end

rebase(refused)
for _, limit in ipairs(fitting) do
  if limit.axis ~= 'concurrency' then
    set_bucket(limit.key, buckets[limit.key])
  end
end
local hold = blank(share, now, fitting)
local until_ms = now + hold_ms
move(share.hold_id, hold, share.amounts, until_ms)
for _, limit in ipairs(fitting) do
  local left, reset
  if limit.axis == 'concurrency' then
    left = limit.capacity - occupied[limit.key] - 1
    reset = median_of(limit.key) or UNKNOWN_WAIT_MS
  else
    local bucket = loaded[limit.key]
    left, reset = floor_div(bucket.level, UNITS_PER_TOKEN), reset_of(bucket)
  end
  append(rows, string.format('%.0f 1 %.0f %.0f', limit.n, math.max(0, left), reset))
end
hold.answer = table.concat(rows, ',')
keep(share.hold_id, hold, share.amounts, until_ms)
write_buckets()
return {1, epoch, reaped, hold.answer}
