"""Triton's compiler and interpreter: compiling kernels, correcting what interprets them, reading their PTX."""
