"""The admin console at `/console/`: dangerous actions, stuck operations, accounts, tokens and the audit trail."""
