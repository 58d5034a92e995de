"""Share groups for API and pages: their connectors, permissions, last known state, and actions."""
