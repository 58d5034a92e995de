"""A connector's page: one module a tab, and what the tabs share."""
