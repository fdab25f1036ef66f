"""
What a platform team publishes for a fleet: the policy, and the keys it issued.

Theory of operation. A document is published into the ledger as an `Envelope`: who
says what, as which version, signed with Ed25519. Processors hold public keys only, and
their Redis user may only read, so neither a stolen pod nor its user can change what
others obey. Each processor asks once a second which versions are the newest (one
MGET, whatever their size), reads one that is new, and uses it if it is signed,
newer than what it has, and valid where it runs. What is not changes nothing.

The last one that was used is kept on disk, still signed, for starts without Redis.
"""
