"""The audit trail: who changed what, from where, and what came of it."""
