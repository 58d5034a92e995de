"""Share groups, exactly once (KIP-932): the ledger of claims, and what a task does with it (docs/share-groups.md)."""
