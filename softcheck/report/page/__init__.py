"""The HTML page of a result: one file without any request, drawn from the saved model alone."""
