-- Takes the usage-only event out of a chat completions stream that it was asked for
-- by the governor and not by the app: `"choices": []` together with `"usage": {…}`.
--
-- Asked by dynamic metadata: tokenweir.strip_usage. Everything else passes at once,
-- byte for byte; no processor is involved, so none that dies can let the event through.
-- WARNING: this filter must be the first in the list. setBytes() also writes
-- content-length into the response headers, so a filter between this one and the client
-- that still holds the headers would send that length.

local MAX = 16384  -- bytes: a longer unfinished event is no usage event, let it go

local function usage_only(event)
  return event:find('"choices"%s*:%s*%[%s*%]') and event:find('"usage"%s*:%s*{')
end

local function ended(text)  -- at the end of an event?
  local a, b, c = text:byte(-3, -1)
  return c == 10 and (b == 10 or b == 13 and a == 10)
end

-- Encoded bodies can't be read; the request went out without accept-encoding.
local function is_readable_stream(headers)
  local kind = (headers:get("content-type") or ""):lower()
  return kind:find("^text/event%-stream") and not headers:get("content-encoding")
end

function envoy_on_response(handle)
  local asked = handle:streamInfo():dynamicMetadata():get("tokenweir")
  if not (asked and asked.strip_usage) then return end
  local headers = handle:headers()
  if not is_readable_stream(headers) then return end
  headers:remove("content-length")
  local tail, sent = "", 0  -- the unfinished event, and how many of its bytes are out
  local out, last = "", nil
  for chunk in handle:bodyChunks() do
    local data = chunk:getBytes(0, chunk:length())
    if tail ~= "" or not ended(data) or data:find("%[%s*%]") then
      local text = tail .. data
      local open = text:match("^.*\n\r?\n()") or 1  -- where the unfinished event begins
      local begun = sent > 0  -- an event whose head is out can't be taken back
      local whole = text:sub(1, open - 1):gsub(".-\n\r?\n", function(event)
        if begun then begun = false elseif usage_only(event) then return "" end
      end)
      out = whole:sub(sent + 1)
      if open > 1 then sent = 0 end
      tail = text:sub(open)
      -- Not held back: the end of the stream, what is too long, line ends of CR alone.
      if sent > 0 or #tail > MAX or tail:find("^data: ?%[DONE") or tail:find("\r[^\n]") then
        out = out .. tail:sub(sent + 1)
        tail = tail:sub(-3)  -- enough to see the end of the event
        sent = #tail
      end
      if out ~= data then chunk:setBytes(out) end
      last = chunk
    end
  end
  -- The last buffer can still be written to, unless trailers came after it.
  if #tail > sent and not handle:trailers() then last:setBytes(out .. tail:sub(sent + 1)) end
end
