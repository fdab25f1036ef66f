-- Leases: holds for several exchanges. Twin of tokenweir.core.carving and of what
-- tokenweir.core.tag does with them.

local NOTHING = {requests = 0, input = 0, output = 0, cost = 0}

local function is_lease(hold)
  return hold and (hold.state == 'held' or hold.state == 'lost')
end

local function less(amounts, other)
  local left = {}
  for name, figure in pairs(amounts) do
    left[name] = math.max(0, figure - other[name])
  end
  return left
end

-- Leave `amounts` and `slots` of a lease; once it is for nobody any more, nothing.
local function resize(lease_id, lease, amounts, slots)
  local key, is_held = root .. ':h:' .. lease_id, lease.state == 'held'
  if slots == 0 then
    amounts = NOTHING
  end
  lease.slots = slots
  move(lease_id, lease, amounts, is_held and slots > 0 and lease.until_ms or nil)
  if is_held and slots == 0 then
    redis.call('DEL', key)
    redis.call('ZREM', root .. ':x', lease_id)
    return
  end
  if lease.recorded then
    local fields = lost_record(lease, amounts, slots == 0 and RETRACTED or '')
    local increments = slots == 0 and {} or lost_increments(lease, amounts)
    write_record(lease, fields, increments)
    lease.recorded = increments
  end
  lease.amounts, lease.progress = amounts, amounts.output
  save_hold(lease_id, lease, is_held and HOLD_KEPT_MS or lease.until_ms - now)
end

-- Take an exchange out of its lease, and return it; nil: it has none, or not any more.
local function carve(share)
  local lease = share.lease ~= '' and load_hold(share.lease)
  if not is_lease(lease) or lease.slots == 0 then
    return nil
  end
  local hold = blank(share, started_of(share.hold_id), {})
  hold.state, hold.amounts = lease.state, share.amounts
  for i, taken in ipairs(lease.taken) do
    local part = {}
    for name, value in pairs(taken) do
      part[name] = value
    end
    part.amount = math.min(taken.amount, amount_of(taken.axis, share.amounts))
    if taken.axis ~= 'concurrency' then
      taken.amount = taken.amount - part.amount
    end
    hold.taken[i] = part
  end
  resize(share.lease, lease, less(lease.amounts, share.amounts), lease.slots - 1)
  return hold
end

-- Return what there was of a hold before a verb that brings its description.
local function before(share, known, epoch)
  if not known then
    local carved = not is_forgotten(share.hold_id, epoch) and carve(share)
    return carved or blank(share, started_of(share.hold_id), share.limits)
  elseif known.state == 'cancelled' then
    local hold = blank(share, known.started, share.limits)
    hold.recorded, hold.is_new = known.recorded, false
    return hold
  end
  return known
end
