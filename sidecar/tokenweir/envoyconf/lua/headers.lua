-- The headers of a reply: what a provider says of its own limits must not be taken for
-- ours, so it moves out of the way. See core/headers.py, which does the same.

local MOVED = { "x-ratelimit", "anthropic-ratelimit", "ratelimit", "x-tokenweir-" }
local REFUSAL = "x-tokenweir-refusal"
local MOST_MOVED, LONGEST = 32, 256

local function is_moved(name)
  for _, prefix in ipairs(MOVED) do
    if sub(name, 1, #prefix) == prefix then return true end
  end
  return false
end

-- Return text as one line of printable ASCII.
local function printable(text)
  text = gsub(sub(text, 1, LONGEST), "[^ -~]", "?")
  return match(text, "^ *(.-) *$")
end

-- Envoy's own replies say with that header why they are made: retry_after.lua has moved a
-- provider's away. Lines of one name are joined (RFC 9110, 5.3).
local function move_limits(headers)
  local names, values = {}, {}
  for name, value in pairs(headers) do
    if is_moved(name) and name ~= REFUSAL then
      if values[name] then values[name] = values[name] .. ", " .. value else
        names[#names + 1], values[name] = name, value
      end
    end
  end
  local moved, count = {}, 0
  for _, name in ipairs(names) do
    headers:remove(name)
    local value = printable(values[name])
    local new_name = "x-upstream-" .. gsub(gsub(name, "^x%-", ""), "^anthropic%-", "")
    if value ~= "" and not moved[new_name] and count < MOST_MOVED then
      moved[new_name], count = true, count + 1
      headers:replace(new_name, value)
    end
  end
end

local function set_reply(headers, reply)
  move_limits(headers)
  for name, value in pairs(reply.set or {}) do headers:replace(name, value) end
end
