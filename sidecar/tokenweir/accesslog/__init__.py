"""Envoy's access log over gRPC: what it tells of answers that no processor reads."""
