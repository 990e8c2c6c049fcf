"""Checks of `archon doctor`: one module per subject, one function per check."""
