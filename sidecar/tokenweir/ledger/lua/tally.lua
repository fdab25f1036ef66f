-- Add figures to the rollup of an hour. Twin of Tag.tally().
--
-- ARGV[2]   the hour since 1970, by the caller's clock: at the latest this one, at the
--           earliest TALLY_HOURS ago
-- ARGV[3…]  groups and figures in a rollup's own form, and how much to add, as pairs
--
-- Fails, and changes nothing, if the server's memory is full.
local this_hour = floor_div(now, HOUR_MS)
local hour = clamp(this_hour - TALLY_HOURS, whole(MAX_MOMENT_MS), this_hour)
local sums = pairs_list()

local increments = {}
for i = 1, #sums, 2 do
  increments[sums[i]] = tonumber(sums[i + 1])
end
add_to_rollup(hour, '', increments)
