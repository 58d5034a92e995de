"""An empty database for every test of the projection."""

from tests.support.database import empty_tables, migrated

__all__ = ["empty_tables", "migrated"]
