"""Background jobs for Python that hold fast."""
