"""A processor: everything that one process serves Envoy with, and its life."""
