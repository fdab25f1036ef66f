-- Tell what the sums of an hour say, at one moment. Writes nothing.
--
-- ARGV[2]  the hour since 1970
--
-- Returns {last, sums, users}: the id of the newest usage record or '', and the fields of
-- the hour's sums and of those by end user, see rollups.lua.
local hour = digits(whole(MAX_MOMENT_MS))
local newest = redis.call('XREVRANGE', root .. ':u', '+', '-', 'COUNT', 1)
return {newest[1] and newest[1][1] or '', redis.call('HGETALL', root .. ':a:' .. hour),
        redis.call('HGETALL', root .. ':n:' .. hour)}
