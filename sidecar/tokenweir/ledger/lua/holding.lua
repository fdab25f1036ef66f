-- Holds, their tombstones and their records. Twin of tokenweir.core.holding, .record
-- and of what the verbs in tokenweir.core.tag share.
--
-- root:h:<hold id>  a hash: state, until, started; then as far as they mean anything:
--                   requests, input, output, cost, price, progress, claimed, model,
--                   answer, slots (of a lease), labels (in the order of LABELS, between them SEPARATOR),
--                   t:<n> "axis rate capacity taken start end thresholds key" for each
--                   limit; start and end of the window, thresholds like "50/80",
--                   and if there is a record: recorded, i:<figure>
-- root:x            holds by expiry (ms)
-- root:e            the epoch: when the tag was first used, in ms
-- root:r            output rates (tokens per 1,000 s) by model
-- root:u            the stream of usage records
-- root:a, root:n    rollups: see rollups.lua

-- Return the tag's epoch, as text, unless memory is full: then fail, at the first write.
local function begin_if_there_is_memory()
  local epoch = redis.call('GET', root .. ':e') or digits(now)
  redis.call('SET', root .. ':e', epoch, 'PX', digits(EPOCH_KEPT_MS))
  return epoch
end

-- Return the tag's epoch, as text.
local function begin()
  local epoch = redis.call('GETEX', root .. ':e', 'PX', digits(EPOCH_KEPT_MS))
  if not epoch then
    epoch = digits(now)
    redis.call('SET', root .. ':e', epoch, 'PX', digits(EPOCH_KEPT_MS))
  end
  return epoch
end

-- Read what a caller says of a hold: see tokenweir.ledger.wire.share_arguments.
local function read_share()
  local share = {hold_id = text(), model = text()}
  share.amounts = {requests = whole(MAX_TOKENS), input = whole(MAX_TOKENS),
                   output = whole(MAX_TOKENS), cost = whole(MAX_SPENT)}
  share.price = whole(MAX_SPENT)
  share.slots, share.lease = whole(MAX_PAIRS), text()
  share.limits = {}
  for i = 1, whole(MAX_PAIRS) do
    local limit = {key = text(), axis = text(), rate = whole(MAX_TOKENS)}
    limit.capacity = whole(BUDGETS[limit.axis] and MAX_SPENT or MAX_TOKENS)
    local mode = whole(2)
    limit.is_shadow, limit.is_staggered = mode == 1, mode == 2
    limit.queue = limit.is_staggered and text() or '-'
    limit.turns, limit.thresholds = {}, '-'
    if BUDGETS[limit.axis] then
      limit.most = whole(MAX_SPENT)
      for n = 1, TURNS do
        limit.turns[n] = whole(MAX_MOMENT_MS)
      end
      limit.thresholds = text()
    end
    share.limits[i] = limit
  end
  share.labels = text()
  return share
end

-- Tell if the windows of a budget in `limits` do not cover the present.
local function is_stale(limits)
  for _, limit in ipairs(limits) do
    if BUDGETS[limit.axis] and not window_at(limit.turns, now) then
      return true
    end
  end
  return false
end

-- Return the epoch and the moment in which a hold id says it was made.
local function origin(hold_id)
  local epoch, made = string.match(hold_id, '^(%d+)%-(%x+)%-')
  if not epoch or #epoch > 15 or #made > 12 then
    return 0, nil
  end
  return tonumber(epoch), tonumber(made, 16)
end

local function started_of(hold_id)
  local _, made = origin(hold_id)
  if not made then
    return now
  end
  return math.max(now - MAX_DURATION_MS, math.min(made, now))
end

local function is_forgotten(hold_id, epoch)
  local made_in, made = origin(hold_id)
  return made ~= nil and made_in >= tonumber(epoch) and now - made > REPLAY_MS
end

local function parse_hold(flat)
  local hold = {taken = {}}
  local recorded = {}
  for i = 1, #flat, 2 do
    local name, value = flat[i], flat[i + 1]
    local kind, rest = string.sub(name, 1, 2), string.sub(name, 3)
    if kind == 't:' then
      local axis, rate, capacity, amount, first, last, thresholds, key =
        string.match(value, '^(%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (.*)$')
      hold.taken[tonumber(rest)] = {key = key, axis = axis, rate = tonumber(rate),
                                    capacity = tonumber(capacity),
                                    amount = tonumber(amount), first = tonumber(first),
                                    last = tonumber(last), thresholds = thresholds}
    elseif kind == 'i:' then
      recorded[rest] = tonumber(value)
    else
      hold[name] = value
    end
  end
  hold.recorded = hold.recorded and recorded or nil
  hold.until_ms, hold.started = tonumber(hold['until']), tonumber(hold.started)
  hold.progress, hold.claimed = tonumber(hold.progress) or 0, hold.claimed == '1'
  hold.amounts = {requests = tonumber(hold.requests) or 0,
                  input = tonumber(hold.input) or 0, output = tonumber(hold.output) or 0,
                  cost = tonumber(hold.cost) or 0}
  hold.price, hold.slots = tonumber(hold.price) or 0, tonumber(hold.slots) or 1
  return hold
end

-- Return what is known of a hold, or nil. A tombstone ends at its time.
local function load_hold(hold_id)
  local key = root .. ':h:' .. hold_id
  local flat = redis.call('HGETALL', key)
  if #flat == 0 then
    return nil
  end
  local hold = parse_hold(flat)
  if hold.state ~= 'held' and hold.until_ms <= now then
    redis.call('DEL', key)
    return nil
  end
  return hold
end

-- Return a hold of `share` that has taken nothing yet from `limits`.
local function blank(share, started, limits)
  local hold = {state = 'cancelled', started = started, progress = 0, claimed = false,
                model = share.model, labels = share.labels, price = share.price,
                slots = share.slots, taken = {}, is_new = true}
  if share.slots > 1 then
    hold.progress = share.amounts.output
  end
  for i, limit in ipairs(limits) do
    local first, last = window_at(limit.turns, started)
    if BUDGETS[limit.axis] and not first then
      first, last = limit.turns[2], limit.turns[3]
    end
    hold.taken[i] = {key = limit.key, axis = limit.axis, rate = limit.rate,
                     capacity = limit.capacity, amount = 0, first = first or 0,
                     last = last or 0, thresholds = limit.thresholds}
  end
  return hold
end

local function append(list, ...)
  for _, value in ipairs({...}) do
    list[#list + 1] = value
  end
end

-- Write a hold or a tombstone in place of what there was.
local function save_hold(hold_id, hold, kept_ms)
  local key = root .. ':h:' .. hold_id
  local flat = {'state', hold.state, 'until', digits(hold.until_ms),
                'started', digits(hold.started)}
  if hold.amounts then
    append(flat, 'requests', digits(hold.amounts.requests),
           'input', digits(hold.amounts.input), 'output', digits(hold.amounts.output),
           'cost', digits(hold.amounts.cost))
  end
  if hold.taken then
    append(flat, 'progress', digits(hold.progress), 'claimed', hold.claimed and '1' or '0',
           'model', hold.model, 'labels', hold.labels, 'price', digits(hold.price))
    for i, taken in ipairs(hold.taken) do
      local figures = string.format(' %.0f %.0f %.0f %.0f %.0f %s ', taken.rate,
                                    taken.capacity, taken.amount, taken.first,
                                    taken.last, taken.thresholds)
      append(flat, 't:' .. i, taken.axis .. figures .. taken.key)
    end
  end
  if hold.answer then
    append(flat, 'answer', hold.answer)
  end
  if hold.slots and hold.slots ~= 1 then
    append(flat, 'slots', digits(hold.slots))
  end
  if hold.recorded then
    append(flat, 'recorded', '1')
    for name, figure in pairs(hold.recorded) do
      append(flat, 'i:' .. name, digits(figure))
    end
  end
  if not hold.is_new then
    redis.call('DEL', key)
  end
  redis.call('HSET', key, unpack(flat))
  redis.call('PEXPIRE', key, digits(kept_ms))
end

-- Keep `hold`, which has just moved to `amounts`, until it expires.
local function keep(hold_id, hold, amounts, until_ms)
  hold.state, hold.until_ms, hold.amounts = 'held', until_ms, amounts
  save_hold(hold_id, hold, HOLD_KEPT_MS)
  redis.call('ZADD', root .. ':x', digits(until_ms), hold_id)
  redis.call('PEXPIRE', root .. ':x', digits(HOLD_KEPT_MS))
end

local function bury(hold_id, tombstone)
  tombstone.until_ms = now + TOMBSTONE_MS
  redis.call('ZREM', root .. ':x', hold_id)
  save_hold(hold_id, tombstone, TOMBSTONE_MS)
end

-- Write a record, or what corrects the one that `hold` has already.
-- `fields`: names and values; without any, another tag keeps the record.
local function write_record(hold, fields, increments)
  if #fields == 0 then
    return
  end
  local labels = {}
  for i = 1, #fields, 2 do
    labels[fields[i]] = fields[i + 1]
  end
  append(fields, 'reserved_at_ms', digits(hold.started),
         'correction', hold.recorded and '1' or '0')
  local stream = root .. ':u'
  redis.call('XADD', stream, 'MINID', '~', digits(wall - RECORD_KEPT_MS), '*',
             unpack(fields))
  redis.call('PEXPIRE', stream, digits(RECORD_KEPT_MS))
  local hour, group = floor_div(hold.started, HOUR_MS), group_of(labels)
  local added = difference(increments, hold.recorded or {})
  add_to_rollup(hour, group, added)
  if labels.user ~= '' then
    add_to_user(root .. ':n:' .. digits(hour), group .. labels.user .. SEPARATOR, added)
  end
end

local function elapsed_of(hold)
  return clamp(0, now - hold.started, MAX_DURATION_MS)
end

-- Return the values of a hold's labels, in the order of LABELS; none: no record.
local function label_values(hold)
  local values = {}
  if hold.labels ~= '' then
    for value in string.gmatch(hold.labels .. SEPARATOR, '(.-)' .. SEPARATOR) do
      append(values, value)
    end
  end
  return values
end

-- Return what a hold that nobody settled adds to its rollup.
local function lost_increments(hold, amounts)
  local labels = {}
  for n, value in ipairs(label_values(hold)) do
    labels[LABELS[n]] = value
  end
  local function is_there(name)
    return (labels[name] or '') ~= '' and 1 or 0
  end
  return difference({
    exchanges = 1, [WITH_USER] = is_there('user'),
    downgraded = is_there('downgraded_from'), capped = is_there('capped_from'),
    requests = amounts.requests, input_tokens = amounts.input,
    output_tokens = amounts.output, cost_nanousd = amounts.cost, outcome_lost = 1,
    source_estimated = 1, tokens_estimated = amounts.input + amounts.output}, {})
end

-- Return the record of a hold that nobody settled; none without labels.
local function lost_record(hold, amounts, flags)
  local fields = {}
  if hold.labels == '' then
    return fields
  end
  for n, label in ipairs(label_values(hold)) do
    append(fields, LABELS[n], label)
  end
  append(fields, 'requests', digits(amounts.requests))
  for _, name in ipairs(CLASSES) do
    local tokens = 0
    if name == 'input_tokens' then
      tokens = amounts.input
    elseif name == 'output_tokens' then
      tokens = amounts.output
    end
    append(fields, name, digits(tokens))
  end
  append(fields, 'source', 'estimated', 'outcome', 'lost', 'status', '0',
         'answered_by', '', 'duration_ms', digits(elapsed_of(hold)),
         'first_token_ms', '', 'flags', flags, 'cost_nanousd', digits(amounts.cost),
         'saved_nanousd', '0', 'cap_saved_nanousd', '0')
  return fields
end

-- Return `amounts` with other `output` tokens, at `price` each.
local function with_output(amounts, output, price)
  local cost = amounts.cost + (output - amounts.output) * price
  return {requests = amounts.requests, input = amounts.input, output = output,
          cost = clamp(0, cost, MAX_SPENT)}
end

-- Charge one expired hold: its input, and the output that it can have made.
local function lose(hold_id, hold)
  local rate = tonumber(redis.call('HGET', root .. ':r', hold.model) or 0)
  local expected = floor_div(elapsed_of(hold) * rate, 1000000)
  local output = math.min(hold.amounts.output, math.max(hold.progress, expected))
  local amounts = with_output(hold.amounts, output, hold.price)
  move(hold_id, hold, amounts, nil)
  local recorded = lost_increments(hold, amounts)
  local fields = lost_record(hold, amounts, '')
  write_record(hold, fields, recorded)
  hold.state, hold.amounts, hold.answer = 'lost', amounts, nil
  hold.recorded = #fields > 0 and recorded or nil
  bury(hold_id, hold)
end

-- Charge at most `most` expired holds, the oldest first; return how many.
local function reap(most)
  local count = 0
  local due = redis.call('ZRANGEBYSCORE', root .. ':x', '-inf', digits(now),
                         'LIMIT', 0, most)
  for _, hold_id in ipairs(due) do
    local hold = load_hold(hold_id)
    if hold and hold.state == 'held' then
      lose(hold_id, hold)
      count = count + 1
    else
      redis.call('ZREM', root .. ':x', hold_id)
    end
  end
  return count
end
