"""Where levels, holds and usage live between exchanges, and between processors."""
