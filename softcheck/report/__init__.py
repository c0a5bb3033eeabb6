"""The report model and its renderers."""
