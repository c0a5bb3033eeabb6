"""Histories: calls in all circumstances, one after the other and at the same time, in one process."""
