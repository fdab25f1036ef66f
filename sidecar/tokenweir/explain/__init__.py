"""
What would be decided about a request, and why, without sending or taking anything.

A request goes through the same core and the same driver as one that Envoy brings:
there is no second implementation of a decision. Only the ledger is another one: it
reads how limits stand, and applies the pure functions of `tokenweir.core` to a copy.
"""
