"""One running platform for all of them."""

from tests.security.end_to_end.site import lines, site

__all__ = ["lines", "site"]
