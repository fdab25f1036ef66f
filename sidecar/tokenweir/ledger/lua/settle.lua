-- Replace a hold by what was used, and write the record. Twin of Tag.settle().
--
-- ARGV[2…5]  what was used: requests, input tokens, output tokens, cost in nano-USD
-- ARGV[6]    how long slots were held, in ms; 0: unknown
-- ARGV[7]    output tokens that tell how fast the model is; 0: they tell nothing
-- ARGV[8…]   the record, as pairs; none: another tag keeps it
-- then       what it adds to the rollup, as pairs
-- then       the share: see read_share
--
-- Returns {state, crossings, epoch}: the state that the hold was in, '' if it was not
-- known; the tag's epoch.
local amounts = {requests = whole(MAX_TOKENS), input = whole(MAX_TOKENS),
                 output = whole(MAX_TOKENS), cost = whole(MAX_SPENT)}
local duration, learned = whole(MAX_DURATION_MS), whole(MAX_TOKENS)
local fields, sums = pairs_list(), pairs_list()
local share = read_share()
local epoch = begin()

local known = load_hold(share.hold_id)
local state = known and known.state or ''
if state == 'settled' then
  return {state, crossings, epoch}
end
local hold = before(share, known)
if known or not is_forgotten(share.hold_id, epoch) then
  move(share.hold_id, hold, amounts, nil)
  learn_duration(hold, duration)
  learn_rate(hold.model, learned, duration)
end
local increments = {}
for i = 1, #sums, 2 do
  increments[sums[i]] = tonumber(sums[i + 1])
end
write_record(hold, fields, increments)
bury(share.hold_id, {state = 'settled', started = hold.started, amounts = amounts})
write_levels()
return {state, crossings, epoch}
