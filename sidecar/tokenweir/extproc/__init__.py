"""
Envoy's side: its ext_proc messages in, its answers out.

`respond` turns rejections into HTTP, and is the only one that does.
"""
