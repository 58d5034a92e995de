"""Initial snapshots: several tasks read the existing rows, range by range, each row once."""
