"""Authentication and authorisation of every request."""
