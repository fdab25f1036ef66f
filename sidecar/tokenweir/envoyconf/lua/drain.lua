-- Reads a request to its end that is too large, so that the app gets to read why.
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
-- forwarded. DRAIN_LIMIT (bytes), READ (paths) and READ_FORMS (patterns of paths) are put
-- before this text; the limit itself comes with the routes, as it is the policy's.

local function is_read(path)
  if READ[path] then return true end
  for _, form in ipairs(READ_FORMS) do
    if path:find(form) then return true end
  end
  return false
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local size = tonumber(headers:get("content-length") or "")
  if not size or size > DRAIN_LIMIT then return end
  local limit = tonumber(handle:filterContext():get("body_limit") or "")
  if not limit or size <= limit then return end
  local path = (headers:get(":path") or ""):match("^[^?#]*")
  if headers:get(":method") ~= "POST" or not is_read(path) then return end
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
