"""Access control: accounts, tokens, and the single authorisation layer of pages and API."""
