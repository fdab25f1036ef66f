"""Wire formats, one module each behind one Protocol; the registry is below."""
