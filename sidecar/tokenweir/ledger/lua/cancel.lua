-- Give a whole hold back. Twin of Tag.cancel().
--
-- ARGV[2]  the hold's id
-- ARGV[3]  '1': only if it was never extended
-- ARGV[4]  '1': it may be a part of a lease, and its share follows: see read_share
--
-- Returns {state, crossings}: the state that the hold was in; 'claimed' if it was left
-- alone; '' if it was not known: now it has a tombstone, so that a late reserve is
-- refused.
local hold_id = text()
local is_unclaimed_only = text() == '1'
local share = text() == '1' and read_share()

write_anyway()
local known = load_hold(hold_id) or share and carve(share)
if not known then
  bury(hold_id, {state = 'cancelled', started = started_of(hold_id)})
  return {'', crossings}
end
local state = known.state
local is_open = state == 'held' or state == 'lost'
if is_open and is_unclaimed_only and known.claimed then
  return {'claimed', crossings}
end
if is_open then
  local nothing = {requests = 0, input = 0, output = 0, cost = 0}
  move(hold_id, known, nothing, nil)
  if known.recorded then
    write_record(known, lost_record(known, nothing, RETRACTED), {})
  end
  bury(hold_id, {state = 'cancelled', started = known.started,
                 recorded = known.recorded and {}})
  write_levels()
end
return {state, crossings}
