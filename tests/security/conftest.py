"""Django for the tests that use it in this process, and one running platform for the others."""

from tests.security.site import lines, site
from tests.support import database

__all__ = ["database", "lines", "site"]
