"""What only the leader does: its term, fencing rounds, task assignment, restarts."""
