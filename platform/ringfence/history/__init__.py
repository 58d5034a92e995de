"""What only the database keeps: versions of configurations, snapshots of offsets, answers to repeated requests."""
