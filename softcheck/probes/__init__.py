"""Ways of calling a variant that expose a broken contract."""
