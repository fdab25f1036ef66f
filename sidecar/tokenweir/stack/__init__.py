"""
A whole stack on one machine: ledger, provider, processors and Envoy as children.

    settings      what was asked for
    programs      where the programs are
    given_ledger  whether a ledger of the user's own is there
    folder        where sockets, logs and configuration are, and that they go away
    blueprint     all of that → which children, in which order
    supervisor    starts them, restarts those that die, stops them in order
    welcome       how to call it
    feed          what is told of each exchange, as `exchange_line` puts it
    local_stack   one from its start to its end
    announcement  what a running one tells other commands
    tour          shows a newcomer, or a smoke test, what a running one does

Rule 1: no child outlives this process, however it ends (`lifeline`).

Rule 2: nothing is signalled that was not started here (`child`).

Rule 3: whoever reads the terminal slowly, or not at all, delays no exchange:
children write to files, and the files are followed.
"""
