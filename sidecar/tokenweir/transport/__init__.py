"""
gRPC for one trusted local peer, on a unix socket: bytes in, bytes out.

`base` is the seam. What is said on a call is its service's business; how it gets
there is a server's, and there is more than one.
"""
