-- Put sums of an hour right, those that have not changed since they were looked at.
--
-- ARGV[2]   the hour since 1970
-- ARGV[3]   how many sums
-- ARGV[4…]  for each: what its fields begin with, "1" if it is an end user's, how many
--           figures are compared; and for each of those its name, what it was found to
--           be, and what it shall be
--
-- Returns for each 1, or 0 if it has changed, or if such sums are kept no longer. So it
-- does no harm twice, and not beside exchanges that go on.

-- Return the figures of one end user that are packed into one field.
local function packed_of(key, prefix)
  local sums = {}
  for name, figure in string.gmatch(redis.call('HGET', key, prefix) or '',
                                    '(%S+) (%S+)') do
    sums[name] = tonumber(figure)
  end
  return sums
end

local function figure_of(key, prefix, packed, name)
  return packed[name] or tonumber(redis.call('HGET', key, prefix .. name) or 0)
end

local hour, done = whole(MAX_MOMENT_MS), {}
local of_all, of_users = root .. ':a:' .. digits(hour), root .. ':n:' .. digits(hour)

for i = 1, whole(MAX_TOKENS) do
  local prefix, is_user = text(), text() == '1'
  local key = is_user and of_users or of_all
  local left_ms = hour * HOUR_MS + (is_user and USERS_KEPT_MS or ROLLUP_KEPT_MS) - now
  local packed = is_user and packed_of(key, prefix) or {}
  local changes = {}
  done[i] = left_ms > 0 and 1 or 0
  for _ = 1, whole(MAX_PAIRS) do
    local name, said, due = text(), tonumber(text()), tonumber(text())
    if figure_of(key, prefix, packed, name) ~= said then
      done[i] = 0
    end
    changes[name] = due - said
  end
  if done[i] == 1 then
    local is_new = redis.call('PTTL', key) == -2
    if is_user then
      add_to_user(key, prefix, changes)
    else
      add_to_rollup(hour, prefix, changes)
    end
    if is_new then
      -- An hour that is long over is not kept for longer than it would have been.
      redis.call('PEXPIRE', key, digits(left_ms))
    end
  end
end
return done
