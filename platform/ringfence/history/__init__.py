"""Data that only the database has: versions of configurations, offset snapshots, answers to repeated requests."""
