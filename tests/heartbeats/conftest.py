"""Heartbeats are rows of the database."""

import tests.support.database  # noqa: F401 - sets Django up
