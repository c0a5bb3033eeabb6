"""Variants: declarations, the built-in ones, finding one by name, and the arithmetic that its kernels show."""
