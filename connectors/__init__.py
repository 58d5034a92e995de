"""Source connectors: the API for connector authors, and the built-in connectors."""
