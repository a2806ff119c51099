-- What wrk sends: the lines of a file in turns, each as the body of a request. Counts answers without a translation.

local bodies, turn = {}, 0
wrong = 0 -- global, for thread:get

local threads = {}

function setup(thread)
  threads[#threads + 1] = thread
end

function init(arguments)
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/json"
  for line in io.lines(arguments[1]) do
    bodies[#bodies + 1] = wrk.format(nil, nil, nil, line)
  end
end

function request()
  turn = turn % #bodies + 1
  return bodies[turn]
end

function response(status, headers, body)
  if status ~= 200 or not body:find('"translatedText"', 1, true) then
    wrong = wrong + 1
  end
end

function done(summary, latency, requests)
  local all_wrong = 0
  for _, thread in ipairs(threads) do
    all_wrong = all_wrong + thread:get("wrong")
  end
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests": %d, "seconds": %.6f, "p50_ms": %.3f, "p99_ms": %.3f, "wrong": %d, "errors": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    all_wrong, errors.connect + errors.read + errors.write + errors.timeout
  ))
end
