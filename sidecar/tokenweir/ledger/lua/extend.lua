-- Renew a hold, claim it and note its progress; bring it back as debt if it was lost
-- or cancelled or is not known. Twin of Tag.extend().
--
-- ARGV[2]   how long the hold lives from now on, in ms
-- ARGV[3]   output tokens so far
-- ARGV[4…]  the share: see read_share
--
-- Returns {state, crossings}: the state that the hold was in, '' if it was not known.
local hold_ms = whole(MAX_DURATION_MS)
local output = whole(MAX_TOKENS)
local share = read_share()
local epoch = begin()

local known = load_hold(share.hold_id)
if not known and is_forgotten(share.hold_id, epoch) then
  return {'', crossings}
end
local state = known and known.state or ''
if state == 'settled' then
  return {state, crossings}
end
local hold = before(share, known, epoch)
hold.progress, hold.claimed = math.max(hold.progress, output), true
local reserved = state == 'held' and hold.amounts or share.amounts
local output = math.max(reserved.output, hold.progress)
local amounts = with_output(reserved, output, share.price)
local until_ms = now + hold_ms
move(share.hold_id, hold, amounts, until_ms)
keep(share.hold_id, hold, amounts, until_ms)
write_levels()
return {state, crossings}
