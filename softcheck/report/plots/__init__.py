"""Plots of saved results, as SVG and PNG. Only this package imports matplotlib, the ``plot`` extra."""
