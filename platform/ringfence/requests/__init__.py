"""What the requests between processes have in common."""
