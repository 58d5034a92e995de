"""The connector API, converters, transforms and the built-in connectors: no broker needed."""
