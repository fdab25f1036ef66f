-- Turns a provider that switches protocols, though nobody asked it to, into an error.
--
-- Envoy would pass its 101 on and carry bytes both ways from then on: nobody could meter
-- them, and an app that did not ask waits for ever. A response without a status is one
-- that Envoy itself replaces, and whose connection it closes: see local_reply.

function envoy_on_response(handle)
  local headers = handle:headers()
  if headers:get(":status") == "101" then headers:remove(":status") end
end
