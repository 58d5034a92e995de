"""Django for the tests that use it in this process."""

from tests.support import database

__all__ = ["database"]
