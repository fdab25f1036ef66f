-- Tells the router not to repeat what the provider said not to repeat now: a wait beyond
-- our bound, a date, or x-should-retry: false. Such a reply goes to the app at once.
--
-- And moves the header away that only replies of Envoy's own have, telling why: here is
-- where a provider's replies alone come by.
--
-- The router takes x-envoy-ratelimited for "no retry"; the route removes it again.
-- LIMIT_SECONDS is defined in a line that is put before this file.

local RETRIED = { ["429"] = true, ["503"] = true }

function envoy_on_response(handle)
  local headers = handle:headers()
  local refusal = headers:get("x-tokenweir-refusal")
  if refusal then
    headers:remove("x-tokenweir-refusal")
    headers:replace("x-upstream-tokenweir-refusal", refusal:sub(1, 256))
  end
  if not RETRIED[headers:get(":status")] then return end
  local wait = headers:get("retry-after")
  local seconds = tonumber(wait)
  local too_long = wait and not (seconds and seconds <= LIMIT_SECONDS)
  if too_long or headers:get("x-should-retry") == "false" then
    headers:replace("x-envoy-ratelimited", "true")
  end
end
