"""Running variants on cases in worker processes."""
