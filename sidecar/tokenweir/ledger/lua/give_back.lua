-- Give the rest of a lease back, once. Twin of Tag.give_back().
--
-- ARGV[2]      the lease: a hold's id
-- ARGV[3…6]    requests, input tokens, output tokens, cost in nano-USD
-- ARGV[7]      for how many exchanges that was
--
-- Returns {state, crossings}: the state that it was in, '' if it is not known.
local lease_id = text()
local amounts = {requests = whole(MAX_TOKENS), input = whole(MAX_TOKENS),
                 output = whole(MAX_TOKENS), cost = whole(MAX_SPENT)}
local slots = whole(MAX_PAIRS)

write_anyway()
local lease = load_hold(lease_id)
local state = lease and lease.state or ''
if is_lease(lease) and not lease.claimed then
  lease.claimed = true
  resize(lease_id, lease, less(lease.amounts, amounts), math.max(0, lease.slots - slots))
  write_levels()
end
return {state, crossings}
