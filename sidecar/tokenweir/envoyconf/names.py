"""
The words that Envoy's configuration shares with the processor.

A header that begins with `GOVERNOR_PREFIX` is taken out of whatever an app sends,
so inside of Envoy only the processor can have set it.

Every other name has a twin on the processor's side: tests compare them.
"""

from __future__ import annotations

from typing import Final

GOVERNOR_PREFIX: Final = "x-tokenweir-"
CLUSTER_HEADER: Final = "x-tokenweir-cluster"  # admission's answer: which provider
TIMEOUT_HEADER: Final = "x-tokenweir-timeout"  # admission's answer: which class
PATH_HEADER: Final = "x-tokenweir-path"  # admission's answer: who reads the response
ROLE_METADATA: Final = "x-tokenweir-role"  # gRPC metadata: which filter is calling
ADMISSION: Final = "admission"
RESPONSE: Final = "response"
OBSERVE: Final = "observe"
RENDERED_METADATA: Final = "x-tokenweir-rendered"  # what this was made from
METADATA_NAMESPACE: Final = "tokenweir"  # dynamic metadata, for filters and the log
PROCESSOR_CLUSTER: Final = "tokenweir-processor"
WHOLE_HEADER: Final = "x-tokenweir-whole"  # the head of what is shown whole; by Lua
NEVER_HEADER: Final = f"{GOVERNOR_PREFIX}never"  # names a cluster that nobody names
ROUTES_NAME: Final = "tokenweir"
