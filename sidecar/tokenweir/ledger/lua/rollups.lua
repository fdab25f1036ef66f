-- Sums of what was used, by the hour. Twin of what tokenweir.core.tag keeps of them.
--
-- root:a            the hours that there are
-- root:a:<hour>     sums: a hash; a field is a group (see GROUP) and a figure
-- root:n:<hour>     the same by end user, of exchanges that name one: a field is a group,
--                   a user and a figure. Users are many: what is no money is packed into
--                   one field of each, "figure number figure number …", whose name ends
--                   where that of a figure would stand

-- Return what turns the sums of `old` into those of `new`, without zeros.
local function difference(new, old)
  local changes = {}
  for name, figure in pairs(new) do
    changes[name] = figure
  end
  for name, figure in pairs(old) do
    changes[name] = (changes[name] or 0) - figure
  end
  for name, figure in pairs(changes) do
    if figure == 0 then
      changes[name] = nil
    end
  end
  return changes
end

-- Add to a hash of sums, to fields that begin with `prefix`; tell if it is new.
local function add_up(key, prefix, increments, kept_ms)
  for name, figure in pairs(increments) do
    redis.call('HINCRBY', key, prefix .. name, digits(figure))
  end
  local is_new = redis.call('PTTL', key) == -1
  if is_new then
    redis.call('PEXPIRE', key, digits(kept_ms))
  end
  return is_new
end

-- Add to the sums of one end user, whose fields begin with `prefix`.
local function add_to_user(key, prefix, increments)
  local money, sums, words = {}, {}, {}
  local packed = redis.call('HGET', key, prefix) or ''
  for name, figure in string.gmatch(packed, '(%S+) (%S+)') do
    sums[name] = tonumber(figure)
  end
  for name, figure in pairs(increments) do
    if string.match(name, 'nanousd$') then
      money[name] = figure
    else
      sums[name] = (sums[name] or 0) + figure
    end
  end
  for name, figure in pairs(sums) do
    words[#words + 1] = name .. ' ' .. digits(figure)
  end
  redis.call('HSET', key, prefix, table.concat(words, ' '))
  add_up(key, prefix, money, USERS_KEPT_MS)
end

local function add_to_rollup(hour_number, prefix, increments)
  local hour = digits(hour_number)
  if add_up(root .. ':a:' .. hour, prefix, increments, ROLLUP_KEPT_MS) then
    local oldest = floor_div(now - ROLLUP_KEPT_MS, HOUR_MS)
    redis.call('ZREMRANGEBYSCORE', root .. ':a', '-inf', digits(oldest))
    redis.call('ZADD', root .. ':a', hour, hour)
    redis.call('PEXPIRE', root .. ':a', digits(ROLLUP_KEPT_MS))
  end
end

-- Return whose rollup a record with these labels goes into: a field's beginning.
local function group_of(labels)
  local names = {}
  for n, name in ipairs(GROUP) do
    names[n] = labels[name]
  end
  return table.concat(names, SEPARATOR) .. SEPARATOR
end
