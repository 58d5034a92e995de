"""Pages about all connectors: overview, list, actions on many."""
