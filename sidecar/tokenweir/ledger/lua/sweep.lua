-- Charge expired holds of a tag that nobody calls. Twin of Tag.reap().
--
-- ARGV[2]  at most how many
--
-- Returns {count, crossings}: how many there were.
write_anyway()
local count = reap(whole(MAX_PAIRS))
write_levels()
return {count, crossings}
