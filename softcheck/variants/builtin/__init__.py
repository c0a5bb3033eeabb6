"""The variants that softcheck brings: one family of kernels per module."""
