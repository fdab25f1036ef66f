"""
Our own gRPC over HTTP/2, for one trusted local peer: no TLS, no proxies, no push.

Theory of operation. `server` accepts connections; each has a `wire`, which is all that
touches a socket, and a `connection`, which is all that knows HTTP/2's rules for one.
`frames`, `settings`, `flow`, `headers` and `messages` are its words, each pure. A
`stream` is one stream as HTTP/2 has it, a `conversation` the same stream as gRPC has it:
a call, its messages and its end.

Bytes that arrive are read, answered and forgotten in one go: an answer that is there at
once costs no task and no turn of the loop. What is written in one turn leaves in one
write.

Rules:

- What a peer sends raises nothing out of `Connection.receive`: a broken stream is reset,
  a broken connection ends with GOAWAY.
- Nothing that a peer can make grow is without a bound: streams (those too that it has
  reset and that are still being cancelled), header blocks, messages, what all streams of
  a connection have of unfinished messages, and answers that it does not fetch (while
  these wait, nothing more is read).
"""
