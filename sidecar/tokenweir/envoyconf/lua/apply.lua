-- Sends a request on that admission was shown whole, as it was admitted, or nowhere.
--
-- The head of such a request passes admission before its body is there, so admission can't
-- change it any more. This filter is behind it, and holds the head until the body has been
-- answered. What is to be changed is told in metadata, tokenweir.request:
--
--     { set = { [name] = value }, remove = { [name] = true } }
--
-- That is taken out at once: it holds the provider's credential, and metadata is logged.
--
-- The routes that lead here lead to no provider. Only the name of one does, which is set
-- last: where there was no answer, or something here broke, Envoy finds no provider and
-- refuses (see local_reply.py), whatever failure_mode_allow says.
--
-- WARNING: what may be set is what mutation_rules of admission allow. Change both.

local WHOLE = "x-tokenweir-whole"
local PROVIDER = "x-tokenweir-cluster"

local function allowed(name, value)
  if value:find("[%z\r\n]") then return false end
  return name == ":path" or not (name:find("^:") or name == "host" or name:find("^x%-envoy%-"))
end

function envoy_on_request(handle)
  local body = handle:body()
  local metadata = handle:streamInfo():dynamicMetadata()
  local ours = metadata:get("tokenweir")
  local changes = ours and ours.request
  if not changes then return end
  metadata:set("tokenweir", "request", {})
  for name, value in pairs(changes.set) do
    if not allowed(name, value) then return end
  end
  local headers = handle:headers()
  for name in pairs(changes.remove) do headers:remove(name) end
  for name, value in pairs(changes.set) do
    if name ~= PROVIDER then headers:replace(name, value) end
  end
  -- It was that of the app's body; another one beside it would begin the next request.
  local length = body and body:length() or 0
  if tonumber(headers:get("content-length") or "") ~= length then
    headers:replace("content-length", tostring(length))
  end
  headers:remove(WHOLE)
  headers:replace(PROVIDER, changes.set[PROVIDER])
end
