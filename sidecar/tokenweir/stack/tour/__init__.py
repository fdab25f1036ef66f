"""
A tour of a running stack: seven things that it does, each done and explained.

    ground   which stack, which key, and that nothing is spent unawares
    call     what is asked, and as a curl line
    client   asks it
    books    what the ledger knows of it
    promise  what is compared with what was promised
    step     what is told of one stop
    stops    the seven
    guide    leads through them

It is a smoke test too: whatever is not as promised is told as a difference.
"""
