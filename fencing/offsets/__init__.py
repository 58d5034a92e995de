"""Source offsets: where they are kept, how they are read, altered and copied."""
