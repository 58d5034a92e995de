"""The audit trail: who changed what, from where, and with which outcome."""
