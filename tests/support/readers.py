"""The reader processes of this test process, as a worker has them."""

import atexit
from functools import cache

from ringfence.engine.browsing.readers import Readers


@cache
def readers() -> Readers:
    """They end with this process."""
    ours = Readers()
    atexit.register(ours.close)
    return ours
