"""Where downloads are kept."""

import os
from pathlib import Path


def cache_root() -> Path:
    """Outside of any working tree: `${XDG_CACHE_HOME:-~/.cache}/ringfence`."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "ringfence"
