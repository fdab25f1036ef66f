"""
Policy → Envoy's configuration.

`bootstrap.render` builds it with Envoy's own message types, as a dict that Envoy
reads as YAML; `validate` asks the real binary. Nothing here runs an Envoy.

Where to begin: `settings` is what a platform team may choose, `listener` is the
way of a request, `filters` is where the processor hooks in, `routes` and
`clusters` lead to providers, `local_reply` is what Envoy itself answers.
"""
