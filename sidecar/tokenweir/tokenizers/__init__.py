"""Counting tokens: vocabularies that are carried along, within a bounded time."""
