"""Operations: what is computed, which answer is exact, and what an output must keep. Importing this package loads no torch."""
