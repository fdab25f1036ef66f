-- Writes down what passes of a response body, so that whoever reads the access log can
-- read the body from it: all of it, up to some size, and its beginning and end of more.
-- Nothing is interpreted here. See core/excerpt.py for the form, and who reads it.
--
-- Metadata can only be written while the body passes, and each write costs some 6 µs. So
-- the first chunks are written one by one, then each time there are an eighth more: a
-- stream that is cut is known but for so much. What does not look like what came before
-- may be its end, or what is charged: that is written at once.
--
-- What does look like it waits, to be looked at with others: Envoy comes from elsewhere
-- for each chunk, and what takes 1 µs in a row takes 10 then.

local ROOM = 65536          -- bytes of records, of units of usual size
local LARGE = 8192          -- bytes of a record: from there on it is none
local LARGE_ROOM = 196608   -- of those that are none
local BLOCK = 2048          -- of a block that is written again and again
local SINGLY, SHARE = 16, 8  -- chunks
local TRIES = 8             -- to learn a template; and as many more units for each other
local HURRIED, REGAINED = 64, 2  -- writes at once; how many more each other one allows
local WAITING = 32768       -- bytes of chunks that wait
local SLICE = 65536         -- bytes that are looked at together
local UNIT = 16384          -- bytes of a unit that are kept as they are
local LARGEST_UNIT = 1048576  -- as core/sse.py has it: longer ones are not read
local SQUEEZED = 65536      -- bytes to which a long one must shrink
local WHOLE = 131072        -- of a body that is one unit
local TAIL = 65536          -- of the end of one that is longer
local NEWEST, MOST_NEWEST, NEWEST_ROOM = 3, 64, 16384
local PIECES = 256
local TASTE = 256           -- bytes of what is no answer

local function joined(parts) return concat(parts, US) end

-- What is told is given to write(key, text); clock() are microseconds.
local function excerpt_of(head, clock, write)
  local pending, block, number = {}, "", 0
  local units, unit_bytes, bytes = 0, 0, 0
  local room, large_room = ROOM, LARGE_ROOM
  local calls, due, hurried, urgent = 0, 1, 0, false
  local began = clock()

  local function put(record) pending[#pending + 1] = record end
  put("?" .. joined({ head[1], head[2], head[3], string.format("%.0f", began) }) .. RS)

  -- === what is kept of it ========================================================

  local pieces, first, last, told  -- the template under way; whether it is written
  local before, tries = nil, 0  -- the last unit, if it can be learned from
  local newest                  -- the last units, once there is no room for more
  local kept_units, kept_bytes = 0, 0

  local function learn_from(unit)
    if not before or tries > TRIES + units / TRIES then return end
    tries = tries + 1
    local found = learn(before, unit)
    if found then pieces, first, last, told = found, found[1], found[#found], false end
  end

  local function to_newest(unit, lost, is_new)
    newest.size = newest.size + #unit
    newest[#newest + 1] = { unit, lost, is_new }
    local old = newest[#newest - NEWEST]
    if old and not old[3] then
      newest.size = newest.size - #old[1]
      table.remove(newest, #newest - NEWEST)
    end
    while #newest > NEWEST and (newest.size > NEWEST_ROOM or #newest > MOST_NEWEST) do
      newest.size = newest.size - #newest[1][1]
      table.remove(newest, 1)
    end
  end

  local function put_unit(record, unit, lost, is_new)
    local size = #record
    if size > LARGE then
      large_room = large_room - size
      if large_room < 0 then return put("!" .. #unit + lost .. RS) end
    else
      if size > room then
        newest = { size = 0 }
        return to_newest(unit, lost, is_new)
      end
      room = room - size
    end
    if lost > 0 then put("-" .. lost .. RS) end
    put(record)
    kept_units, kept_bytes = kept_units + 1, kept_bytes + #unit + lost
  end

  -- Take a whole unit; `lost`: bytes that were in it and are no more.
  local function add(unit, lost)
    units, unit_bytes = units + 1, unit_bytes + #unit + lost
    local record = pieces and lost == 0 and by_template(pieces, unit)
    if record then
      if newest then return to_newest(unit, lost, false) end
      if not told then record, told = "~" .. joined(pieces) .. RS .. record, true end
      before = unit
      return put_unit(record, unit, lost, false)
    end
    urgent = true
    record = raw_record(unit)
    local is_text = lost == 0 and #unit <= LARGE and byte(record, 1) == 61
    if is_text then learn_from(unit) end
    before = is_text and unit or nil
    if newest then return to_newest(unit, lost, true) end
    put_unit(record, unit, lost, true)
  end

  local function leave_out(size)
    units, unit_bytes, urgent = units + 1, unit_bytes + size, true
    before = nil
    if not newest then put("!" .. size .. RS) end
  end

  -- === writing ===================================================================

  local function missing(of_units, of_bytes) return "+" .. of_units .. " " .. of_bytes .. RS end

  local function newest_records()
    local records = { missing(units - kept_units - #newest, unit_bytes - kept_bytes - newest.size) }
    for _, each in ipairs(newest) do
      if each[2] > 0 then records[#records + 1] = "-" .. each[2] .. RS end
      records[#records + 1] = raw_record(each[1])
    end
    return concat(records)
  end

  local function write_down(over)
    local stamp = string.format("@%.0f %d %d", clock() - began, units, bytes) .. RS
    if over then stamp = stamp .. "." .. RS end
    if #pending > 0 or not newest then
      block, pending = block .. concat(pending) .. stamp, {}
      write("b" .. number, block)
      if #block > BLOCK then block, number = "", number + 1 end
    end
    if newest then write("tail", newest_records() .. stamp) end
    due, urgent = calls + (calls < SINGLY and 1 or calls / SHARE), false
  end

  local function is_due()
    if units == 0 then return false end
    if calls >= due then
      hurried = math.max(0, hurried - REGAINED)
      return true
    end
    if not urgent or hurried >= HURRIED then return false end
    hurried = hurried + 1
    return true
  end

  -- === units that are under way ==================================================

  local held, held_size = {}, 0
  local squeezed                -- takes what comes of a long one
  local is_json = true          -- and can: it is no frame

  local function keep(piece)
    if piece == "" then return end
    held_size = held_size + #piece
    if squeezed then return squeezed.feed(piece) end
    held[#held + 1] = piece
    if is_json and held_size > UNIT then
      squeezed = squeezer(SQUEEZED)
      for _, each in ipairs(held) do squeezed.feed(each) end
      held = {}
    elseif held_size > SQUEEZED then
      held = {}
    end
  end

  local function finish(piece)
    if held_size == 0 and #piece <= UNIT then return add(piece, 0) end
    keep(piece)
    local size, short = held_size, squeezed
    local text = short and short.text() or concat(held)
    held, held_size, squeezed = {}, 0, nil
    local is_there = short and not short.full or #text == size
    if size > LARGEST_UNIT or not is_there then return leave_out(size) end
    add(text, size - #text)
  end

  local function size() return held_size end

  -- === a body that is one unit ===================================================

  local function whole_framing()
    local count, tail, tail_size, first = 0, nil, 0, 1

    local function keep_tail(piece)
      tail[#tail + 1], tail_size = piece, tail_size + #piece
      if #tail > PIECES then tail, first = { concat(tail, "", first) }, 1 end
      while tail_size - #tail[first] >= TAIL do
        tail_size, tail[first], first = tail_size - #tail[first], false, first + 1
      end
    end

    local function shrink(text)
      for at = 1, #text, SLICE do
        local slice = sub(text, at, at + SLICE - 1)
        if tail then keep_tail(slice) else
          squeezed.feed(slice)
          if squeezed.full then tail = {} end
        end
      end
    end

    local function feed(text)
      held_size = held_size + #text
      if squeezed then return shrink(text) end
      held[#held + 1], count = text, count + 1
      if count > PIECES then held, count = { concat(held) }, 0 end
      if held_size <= WHOLE then return end
      squeezed = squeezer(WHOLE)
      shrink(concat(held))
      held = {}
    end

    local function over()
      if held_size == 0 then return end
      units = 1
      local text = squeezed and squeezed.text() or concat(held)
      local taken = squeezed and squeezed.taken or #text
      if #text < taken then put("-" .. taken - #text .. RS) end
      put(raw_record(text))
      if not tail then return end
      put(missing(0, held_size - taken - tail_size))
      put(raw_record(concat(tail, "", first)))
    end

    return feed, over
  end

  -- What is encoded is kept as it comes, and of no use behind a gap.
  local function coded_framing()
    return function(text)
      units, unit_bytes = units + 1, unit_bytes + #text
      if not newest and kept_bytes + #text <= WHOLE then
        put(coded_record(text))
        kept_units, kept_bytes = kept_units + 1, kept_bytes + #text
      else
        newest = newest or { size = 0 }
      end
    end
  end

  local function other_framing()
    local function feed(text)
      held_size = held_size + #text
      if held_size == #text then put(raw_record(sub(text, 1, TASTE))) end
    end
    return feed, function() if held_size > TASTE then put(missing(0, held_size - TASTE)) end end
  end

  -- === what it is ================================================================

  local feed, over

  local function rest() if held_size > 0 then finish("") end end

  -- As core/response.py tells it: by how it begins, since labels lie, else by label.
  local function choose(start)
    local kind = head[1]:lower()
    if find(start, "^\31\139") then return coded_framing() end
    if find(start, "^%[") then return array_framing(finish, keep), rest end
    if find(start, "^{") then return whole_framing() end
    if find(start, "^%z") or find(kind, "^application/vnd%.amazon%.eventstream") then
      is_json = false
      return frame_framing(finish, keep, size), rest
    end
    if find(kind, "^text/event%-stream") or find(start, "^%a*:") then
      return event_framing(finish, keep, size), rest
    end
    if find(kind, "json") then return whole_framing() end
    return other_framing()
  end

  if not find(head[2]:lower(), "^%s*$") and head[2]:lower() ~= "identity" then
    feed = coded_framing()
  end
  local beginning = ""
  local queue, queued, queued_bytes = {}, 0, 0

  local function begin(text)
    beginning = beginning .. text
    local at = match(beginning, "^%s*()", match(beginning, "^%s*\239\187\191()"))
    local start = at == 1 and beginning or sub(beginning, at)
    if #start < 8 and #beginning <= 64 and not find(start, "^[%[{]") then return end
    feed, over = choose(start)
    feed(start)
    beginning = ""
  end

  local function catch_up()
    for i = 1, queued do
      feed(queue[i])
      queue[i] = nil
    end
    queued, queued_bytes = 0, 0
  end

  local function take(text)
    bytes, calls = bytes + #text, calls + 1
    if pieces and held_size == 0 and find(text, first, 1, true) == 1 and find(text, last, -#last, true) then
      queued, queued_bytes = queued + 1, queued_bytes + #text
      queue[queued] = text
      if calls < due and queued_bytes < WAITING then return end
      catch_up()
    else
      if queued > 0 then catch_up() end
      if feed then feed(text) else begin(text) end
    end
    if is_due() then write_down() end
  end

  local function close()
    catch_up()
    if beginning ~= "" then
      feed, over = choose(beginning)
      feed(beginning)
    end
    if over then over() end
    write_down(true)
  end

  return take, close
end
