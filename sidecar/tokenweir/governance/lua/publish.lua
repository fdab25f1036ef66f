-- Publish one version of a document, unless another was published meanwhile.
-- It stands alone: no prelude. Versions are compared as text, never as numbers.
--
-- KEYS[1]  what all keys of governance begin with
-- ARGV[1]  name of the document
-- ARGV[2]  the newest version that the publisher knows of; "0": none
-- ARGV[3]  version of this one
-- ARGV[4]  its envelope
-- ARGV[5]  how many versions are kept
--
-- Returns {1 if it was published, else 0; the version that is the newest now}.
--
-- A newer version may have given all of this another format: see the ledger's prelude.
if tonumber(redis.call('GET', KEYS[1] .. ':f') or FORMAT) ~= FORMAT then
  return redis.error_reply('NEWFORMAT this version knows ' .. FORMAT)
end
local head = KEYS[1] .. ':' .. ARGV[1]
local versions = head .. ':versions'
local newest = redis.call('GET', head) or '0'
if newest ~= ARGV[2] then
  return {0, newest}
end
redis.call('SET', head .. ':' .. ARGV[3], ARGV[4])
redis.call('ZADD', versions, ARGV[3], ARGV[3])
redis.call('SET', head, ARGV[3])
local oldest = redis.call('ZRANGE', versions, 0, -1 - tonumber(ARGV[5]))
for _, version in ipairs(oldest) do
  redis.call('DEL', head .. ':' .. version)
  redis.call('ZREM', versions, version)
end
return {1, ARGV[3]}
