"""The pages about share groups: the list, one group, and the timeline of one of its partitions."""
