"""The limits of previews in tests."""

BOUNDS = {"records": 5, "bytes": 1_000_000, "seconds": 5.0}
