"""The parts that the API and the pages share: errors, and masking of secrets."""

import sys
from typing import Final

_UNUSED: Final = ("requests", "django.contrib.postgres.fields", "pygments")
"""What REST framework imports in case somebody uses its test client, its fields of PostgreSQL, or its own pages: a
seventh of the time that a web process takes to import, and 15 MiB.
"""


def _import_rest_framework() -> None:
    hidden = [name for name in _UNUSED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: as if it were not installed
    try:
        import rest_framework.compat  # noqa: F401
    finally:
        for name in hidden:
            del sys.modules[name]


_import_rest_framework()
