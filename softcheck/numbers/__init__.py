"""Expressions of real numbers, whose values and largest errors come from one formula."""
