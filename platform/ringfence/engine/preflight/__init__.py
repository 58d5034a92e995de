"""Checks before a connector runs."""
