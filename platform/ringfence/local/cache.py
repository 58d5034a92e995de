"""Where downloads are stored."""

import os
from pathlib import Path


def cache_root() -> Path:
    """Return `${XDG_CACHE_HOME:-~/.cache}/ringfence`, which is outside of any working tree."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "ringfence"
