"""Who may do what: accounts, tokens and the one authorisation layer of pages and API."""
