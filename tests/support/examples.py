"""How many examples a property gets: `make test-pure` is for the first minute, and tries a fifth of them."""

import os

_SHARE, _LEAST = 5, 10


def examples(count: int) -> int:
    """For Hypothesis's `max_examples`: `count`, or a fifth of that in a run of pure tests."""
    return max(count // _SHARE, _LEAST) if "RINGFENCE_TESTS_PURE" in os.environ else count
