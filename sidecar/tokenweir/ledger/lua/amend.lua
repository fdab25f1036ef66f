-- Put counters of budgets right. Twin of tokenweir.core.amendment.
--
-- ARGV[2]   how many counters
-- ARGV[3…]  for each: its limit, the start and the end of the window, what it was found
--           to have spent at most, what to add and what to take away, the capacity, the
--           thresholds like "50/80" or "-"
--
-- Returns for each 1, or 0 if it was set back meanwhile and was left alone.
local held, done = {}, {}
for _, hold_id in ipairs(redis.call('ZRANGE', root .. ':x', 0, -1)) do
  local hold = parse_hold(redis.call('HGETALL', root .. ':h:' .. hold_id))
  if hold.state == 'held' then
    for _, taken in ipairs(hold.taken) do
      local name = digits(taken.first) .. ':' .. taken.key
      held[name] = (held[name] or 0) + taken.amount
    end
  end
end
for i = 1, whole(MAX_TOKENS) do
  local key, first, last = text(), whole(MAX_MOMENT_MS), whole(MAX_MOMENT_MS)
  local seen, more, less = whole(MAX_SPENT), whole(MAX_SPENT), whole(MAX_SPENT)
  local capacity, thresholds = whole(MAX_SPENT), text()
  local spending, name = spending_of(key, first, last)
  if spending.spent < seen then
    done[i] = 0
  else
    spending.spent = clamp(0, spending.spent + more - less, MAX_SPENT)
    spending.reserved = held[name] or 0
    spending.told = math.max(spending.told,
                             passed(spending.spent, capacity, thresholds))
    spent[name] = true
    done[i] = 1
  end
end
write_levels()
return done
