-- Have one owner at a time do a job: take the lease, renew it, or give it up.
-- It stands alone: no prelude.
--
-- KEYS[1]  the lease
-- ARGV[1]  who asks
-- ARGV[2]  for how long, in ms; 0 gives it up
--
-- Returns 1 if the asker has the lease now, else 0.
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then
  return 0
end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
  return 0
end
-- Also if memory is full, when whoever sweeps is needed most: after the DEL a SET is not
-- refused; see prelude.
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
