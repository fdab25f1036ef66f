"""
Performs what exchanges ask for, and brings the results back to them.

It holds no policy: an `if` about limits in here belongs in the core.
"""
