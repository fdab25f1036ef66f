-- Tell what budgets under a tag say and what is held, at one moment. Writes nothing.
--
-- ARGV[2]   how many counters
-- ARGV[3…]  their names: "<start>:<limit>"
--
-- Returns {last, counters, holds}: the id of the newest usage record or '', what each
-- counter says or '', and for each hold its id and then, for each budget that it has
-- taken from, the counter's name and the amount.
local counters, holds = {}, {}
for i = 1, whole(MAX_TOKENS) do
  counters[i] = redis.call('GET', root .. ':w:' .. text()) or ''
end
for i, hold_id in ipairs(redis.call('ZRANGE', root .. ':x', 0, -1)) do
  local hold = parse_hold(redis.call('HGETALL', root .. ':h:' .. hold_id))
  if hold.state == 'held' then
    local told = {hold_id}
    for _, taken in ipairs(hold.taken) do
      if BUDGETS[taken.axis] then
        append(told, digits(taken.first) .. ':' .. taken.key, digits(taken.amount))
      end
    end
    append(holds, told)
  end
end
local newest = redis.call('XREVRANGE', root .. ':u', '+', '-', 'COUNT', 1)
return {newest[1] and newest[1][1] or '', counters, holds}
