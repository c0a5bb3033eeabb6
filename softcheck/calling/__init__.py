"""Calls of a variant: its input in memory, the state that it must leave alone, and refusals told from errors."""
