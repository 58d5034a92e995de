"""Source offsets: where they are stored, and how they are read, altered and copied."""
