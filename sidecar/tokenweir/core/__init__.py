"""
The pure part: what happens to an exchange, and why.

Rule 1: nothing in here does I/O, reads a clock, draws a random number, logs, or
knows protobuf. Time, ids and random values are arguments.

Rule 2: an outcome is a value (`rejection`), a fault is an exception (`errors`).

Where to begin: `events` and `commands` are the vocabulary, `exchange` is the
table of what follows from what, `policy` is what decisions are made from.
"""
