"""
Pod → pod: the two sidecars put in, and taken out again.

`pod.inject` is one pure function, and everybody uses it: `tokenweir inject` on
manifests, the webhook on pods that are being created, tests. What it is told comes from
`settings` (a cluster's defaults) and from annotations of the pod, in one table:
`options`.

Theory of operation. Whatever is ours has a name of ours: containers, volumes, label,
annotation. What is there by name stays as it is, what is missing is added, and nothing
else is touched: so it does not matter who else has changed the pod in between, what
defaults an API server has filled in, or how often we are asked. The status annotation
tells which variables of which container are ours; `pod.uninject` goes by it.

Where to begin: `pod`, then `containers` (what runs), `variables` (what apps are told),
`obstacles` (why not). `manifest` finds pods in YAML; `admission` answers an API server;
`registration` renders what has it ask. Nothing here does I/O but `webhook`, the server.
"""
