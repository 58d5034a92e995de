"""A connector's page: one module per tab, and what the tabs share."""
