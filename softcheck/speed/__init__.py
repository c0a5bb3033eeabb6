"""Measuring speed: interleaved rounds, statistics on them, and what would make them untrue."""
