"""How a record gets into a transaction: transform, convert, produce; and what happens to one that fails."""
