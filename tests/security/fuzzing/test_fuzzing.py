"""Changes valid inputs, and makes up others, for every parser that meets bytes from elsewhere.

Each must return, or raise one of the errors that it declares, in bounded time and memory. A process that crashes ends
the run, which says enough. `make fuzz` runs this for hours (FUZZ_SECONDS for each parser); continuous integration takes
some examples. What was found is kept in `FOUND`.
"""

import os
import resource
import struct
import time
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.security.fuzzing.targets import TARGETS, Target

SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
EXAMPLES = 60
LONGEST_SECONDS = 5.0
MOST_BYTES = 600 << 20

FOUND: dict[str, list[bytes]] = {
    "record batches": [b"\0" * 8 + b"\xff\xff\xff\xf4" + b"\0" * 9],  # a length that leads back to itself
    "fetched batches": [
        # A marker without a type, and a number of a megabyte.
        struct.pack(">qiibIhiqqqhii", 0, 58, 0, 2, 0, 0x30, 0, 0, 0, 7, 1, -1, 1) + b"\x10\0\0\0\x08" + b"\0" * 4,
        struct.pack(">qiibIhiqqqhii", 0, 49 + 2**20, 0, 2, 0, 0x30, 0, 0, 0, 7, 1, -1, 1) + b"\xff" * 2**20,
    ],
    "snapshot signal": [b"[" * 2000, b'{"data-collections":["' + b"(" * 20_000 + b'"]}'],
    "REST description": [b'{"client": {"base_url": "http://[["}, "resources": ["a"]}', b"[" * 2000, b'{"a":' * 500],
    "zip archive": [
        bytes.fromhex("504b0304140000000800000000000000000000000000000000000100000061")
        + bytes.fromhex("504b01021403140000000800000000000000000000000000000000000000000000000000000080010000000000")
        + bytes.fromhex("00504b050600000000010001002e0000001f0000000000")
    ],
    "Avro file": [b'Obj\x01\x02\x16avro.schema"{"type":"record"}\x00' + b"s" * 16],
}


def change(seed: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """Apply edits: where, how many bytes to remove, and what to put there."""
    for at, removed, inserted in edits:
        at %= len(seed) + 1
        seed = seed[:at] + inserted + seed[at + removed :]
    return seed


NUMBERS = [b"\xff" * 4, b"\x7f" + b"\xff" * 3, b"\x80" + b"\0" * 3, b"\0" * 8, b"\xff" * 8, b"\xfe\xff\xff\xff\x0f"]
TEXTS = [b"[" * 1500, b'{"a":' * 500, b"9" * 5000, b"1e999", b"\\", b'"']
PIECES = st.one_of(st.binary(max_size=4), st.sampled_from([*NUMBERS, *TEXTS]))
EDITS = st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 6), PIECES), max_size=6)


def inputs(target: Target) -> st.SearchStrategy[bytes]:
    return st.one_of(st.builds(change, st.sampled_from(list(target.seeds)), EDITS), st.binary(max_size=60))


def check(target: Target, data: bytes) -> None:
    started, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with suppress(*target.errors):
        target.parse(data)
    assert time.process_time() - started < LONGEST_SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_BYTES >> 10


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_bears_whatever_it_is_given(name: str) -> None:
    target = TARGETS[name]
    for seed in [*target.seeds, *FOUND.get(name, ())]:
        check(target, seed)
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]

    @settings(max_examples=EXAMPLES if not SECONDS else 500, deadline=None, suppress_health_check=slow)
    @given(inputs(target))
    def run(data: bytes) -> None:
        check(target, data)

    end = time.monotonic() + SECONDS
    run()
    while time.monotonic() < end:
        run()
