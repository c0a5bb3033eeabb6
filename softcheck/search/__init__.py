"""What a search for the worst row is made of: random rows, mutations of good ones, and how bad a row is."""
