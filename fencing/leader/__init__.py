"""What only the leader does: its term, fencing rounds, assignment of tasks, restarts."""
