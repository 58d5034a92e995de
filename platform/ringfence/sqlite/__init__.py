"""Django's backend for SQLite, with connections that can be kept from one request to the next."""
