-- Replace holds by what was used, and write their records. Twin of Tag.settle(), for
-- one exchange after the other.
--
-- ARGV[2]    how many exchanges
-- then, for each:
--            what was used: requests, input tokens, output tokens, cost in nano-USD
--            how long slots were held, in ms; 0: unknown
--            output tokens that tell how fast the model is; 0: they tell nothing
--            the record, as pairs; none: another tag keeps it
--            what it adds to the rollup, as pairs
--            the share: see read_share
--
-- Returns {states, crossings, epoch}: the state that each hold was in, '' if it was not
-- known; the tag's epoch.
local exchanges, states = {}, {}
for n = 1, whole(MAX_PAIRS) do
  exchanges[n] = {
    amounts = {requests = whole(MAX_TOKENS), input = whole(MAX_TOKENS),
               output = whole(MAX_TOKENS), cost = whole(MAX_SPENT)},
    duration = whole(MAX_DURATION_MS), learned = whole(MAX_TOKENS),
    fields = pairs_list(), sums = pairs_list(), share = read_share()}
end
local epoch = begin()
is_batch = #exchanges > 1

local function settle(exchange)
  local share = exchange.share
  local known = load_hold(share.hold_id)
  local state = known and known.state or ''
  if state == 'settled' then
    return state
  end
  local hold = before(share, known, epoch)
  if known or not is_forgotten(share.hold_id, epoch) then
    move(share.hold_id, hold, exchange.amounts, nil)
    learn_duration(hold, exchange.duration)
    learn_rate(hold.model, exchange.learned, exchange.duration)
  end
  local increments = {}
  for i = 1, #exchange.sums, 2 do
    increments[exchange.sums[i]] = tonumber(exchange.sums[i + 1])
  end
  write_record(hold, exchange.fields, increments)
  bury(share.hold_id,
       {state = 'settled', started = hold.started, amounts = exchange.amounts})
  return state
end

for n, exchange in ipairs(exchanges) do
  local is_done, state = pcall(settle, exchange)
  if not is_done then
    -- What was done for those before it stays done: levels follow.
    if is_batch then
      write_levels()
    end
    error(state, 0)
  end
  states[n] = state
end
write_levels()
return {states, crossings, epoch}
