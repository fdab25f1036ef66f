"""
Content codings: one module each, behind one Protocol.

A coding turns bytes into others, and knows neither limits nor headers: for those see
`tokenweir.core.content_coding`.
"""
