"""Parts of a search for the worst row: random rows, mutations of good rows, and figures of badness."""
