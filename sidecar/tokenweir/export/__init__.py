"""
Usage records on their way out of the ledger: to files, or to a database.

Theory of operation. Settled exchanges are entries of the ledger's streams, one stream
for each tag. An exporter reads all of them as a consumer group, gives a batch to a
sink, and acknowledges it once the sink has made it durable. What it had in hand when it
was killed is delivered again: to itself, or to whoever else reads in its group. So
every record arrives at least once, and sinks see to it that twice does no harm.

    streams.py    the ledger's side: read, claim, acknowledge
    record.py     an entry, checked and typed
    sink.py       what a sink is; jsonl.py, parquet.py, postgres.py are some
    exporter.py   from the one to the other, whatever is away
    lag.py        how far behind whom the streams are
"""
