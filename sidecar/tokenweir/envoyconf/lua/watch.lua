-- What Envoy does itself with a reply that the governor has admitted, so that no processor
-- need be on its way. The governor has told, in the dynamic metadata "tokenweir":
--
--   strip_usage  take the usage-only event out: see strip.lua
--   reply        { set = { name = value } }: headers of ours; and what the provider says of
--                its own limits moves out of the way: see headers.lua
--   path         "native": write down what passes, for the access log: see excerpt.lua
--   unread       ... but nobody would read it
--
-- What is written down is in the dynamic metadata "tokenweir.out", all of it text:
--
--   b0, b1, …    records, see core/excerpt.py; of these only the last one still grows
--   tail         once there is no room for more in them: records of what came last, anew
--                with each write
--   fault        true: this script broke, and what is there is not all
--
-- Of a stream these are some 20 bytes for each delta, and at most 64 KiB; of one reply, or
-- one that is encoded, 128 KiB and 64 KiB of its end; of large events 192 KiB more. They
-- are written with each of the first chunks, then with each eighth more, and with what does
-- not look like what came before; a reply that is JSON is written at its end. Nothing is
-- written of an error's body.
--
-- No byte waits for this script but an event that may have to be taken out, and none is
-- lost if it breaks: what was held goes on, and the rest passes as it is.
--
-- WARNING: this filter must be the first in the list. setBytes() also writes
-- content-length into the response headers, so a filter between this one and the client
-- that still holds the headers would send that length.

local OUT = "tokenweir.out"

local function broken(handle, problem)
  handle:logErr("watch: " .. tostring(problem))
end

local function excerpt_from(handle, headers)
  local status = tonumber(headers:get(":status"))
  if not status or status >= 400 then return nil end
  local function header(name) return headers:get(name) or "" end
  local function clock() return tonumber(handle:timestampString(EnvoyTimestampResolution.MICROSECOND)) end
  local head = { header("content-type"), header("content-encoding"), header("content-length") }
  return excerpt_of(head, clock, function(key, text)
    handle:streamInfo():dynamicMetadata():set(OUT, key, text)
  end)
end

-- What is written down is not all: whoever reads the access log must know.
local function at_fault(handle, problem)
  broken(handle, problem)
  pcall(function() handle:streamInfo():dynamicMetadata():set(OUT, "fault", true) end)
end

local function watch_body(handle, take, close, strip)
  local feed, rest, waiting
  if strip then feed, rest, waiting = stripper() end
  local out, last = "", nil
  for chunk in handle:bodyChunks() do
    local data = chunk:getBytes(0, chunk:length())
    if take and data ~= "" then
      local ok, problem = pcall(take, data)
      if not ok then
        take = nil
        at_fault(handle, problem)
      end
    end
    if feed and not last and find(data, "^%s*[{%[<]") then feed = nil end  -- no stream at all
    if feed then
      local held, count = waiting()
      local ok, result = pcall(feed, data)
      if not ok then
        broken(handle, result)
        feed, result = nil, concat(held, "", 1, count) .. data
      end
      if result ~= data then chunk:setBytes(result) end
      out, last = result, chunk
    end
    if not (take or feed) then return end
  end
  if take then
    local ok, problem = pcall(close)
    if not ok then at_fault(handle, problem) end
  end
  -- The last buffer can still be written to, unless trailers came after it.
  if feed and last and rest() ~= "" and not handle:trailers() then last:setBytes(out .. rest()) end
end

function envoy_on_response(handle)
  local told = handle:streamInfo():dynamicMetadata():get("tokenweir")
  if not told then return end
  local headers = handle:headers()
  local strip = told.strip_usage and may_be_stream(headers)
  local take, close
  if told.path == "native" and not told.unread then
    local ok
    ok, take, close = pcall(excerpt_from, handle, headers)
    if not ok then
      at_fault(handle, take)
      take = nil
    end
  end
  if told.reply then
    local ok, problem = pcall(set_reply, headers, told.reply)
    if not ok then broken(handle, problem) end
  end
  if strip then headers:remove("content-length") end
  if strip or take then watch_body(handle, take, close, strip) end
end
