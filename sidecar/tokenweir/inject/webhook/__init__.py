"""
The server that an API server asks about each new pod: `tokenweir webhook serve`.

`server` answers over TLS, `certificate` keeps the pair that it answers with, `operators`
tells of it, `life` runs it all until a signal ends it. What is decided is decided in
`tokenweir.inject.admission`.
"""
