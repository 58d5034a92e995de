"""The form of a new connector, and its checks before it is created."""
