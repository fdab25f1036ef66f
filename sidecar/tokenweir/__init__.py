"""Governs LLM traffic from beside Envoy: quotas, accounting, honest refusals."""

__version__ = "0.1.0"
