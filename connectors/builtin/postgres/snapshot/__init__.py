"""Initial snapshots: the rows that are there already, read by many tasks, range by range, and by none twice."""
