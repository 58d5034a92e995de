"""The admin console at `/console/`: heavy acts, stuck operations, accounts, tokens and the audit trail."""
