"""The pages about share groups: all of them, one, and the timeline of one of its partitions."""
