-- What the first filter does with a request before the processor has seen it.
--
-- 1. It tells of a request's head what the processor has to know, where that is shown the
-- request whole: see whole_requests.py. A fault here only makes it go the long way.
--
-- 2. It reads a request to its end that is too large, so that the app gets to read why.
--
-- Envoy answers 413 as soon as its buffer is full, and half a second later closes a
-- connection that is still being written to. Clients that write first and read then,
-- as asyncio's do, see a reset instead of the answer, and try again.
--
-- So of a body that says it is above the limit, one byte more than the limit passes on,
-- which the processor refuses, and the rest is dropped as it comes. That byte is a NUL,
-- which no JSON has: a processor with another limit must not take the part for a whole.
--
-- WARNING: only where the processor reads bodies: elsewhere a body that was cut would be
-- forwarded. DRAIN_LIMIT and WHOLE_LIMIT (bytes), READ (paths) and READ_FORMS (patterns of
-- paths) are put before this text; the limit itself comes with the routes, as it is the
-- policy's.

local WHOLE = "x-tokenweir-whole"
local HEAD_LIMIT = 32768  -- bytes

local function is_read(path)
  if READ[path] then return true end
  for _, form in ipairs(READ_FORMS) do
    if path:find(form) then return true end
  end
  return false
end

-- Return all of the head as one text, or nil: it goes the long way.
local function told(headers)
  if headers:get("content-encoding") then return nil end
  local kind = headers:get("content-type")
  if kind and kind:lower():find("form", 1, true) then return nil end
  local parts, size = {}, 0
  for name, value in pairs(headers) do
    -- A tab stands between them, and other bytes are no text.
    if value:find("[^ -~]") then return nil end
    size = size + #name + #value + 2
    parts[#parts + 1], parts[#parts + 2] = name, value
  end
  return size <= HEAD_LIMIT and table.concat(parts, "\t") or nil
end

local function drain(handle, limit)
  local left = limit
  for chunk in handle:bodyChunks() do
    local length = chunk:length()
    if left < 0 then
      chunk:setBytes("")
    elseif length > left then
      chunk:setBytes(chunk:getBytes(0, left) .. "\0")
      left = -1
    else
      left = left - length
    end
  end
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local size = tonumber(headers:get("content-length") or "")
  if not size or size == 0 or size > DRAIN_LIMIT then return end
  if headers:get(":method") ~= "POST" then return end
  if not is_read((headers:get(":path") or ""):match("^[^?#]*")) then return end
  local limit = tonumber(handle:filterContext():get("body_limit") or "")
  if limit and size > limit then return drain(handle, limit) end
  local head = size <= WHOLE_LIMIT and told(headers)
  if head then headers:replace(WHOLE, head) end
end
