"""Pages about all connectors: overview, list, and bulk actions."""
