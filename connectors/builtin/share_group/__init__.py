"""ShareGroupSource: topics read through a share group, with more tasks than partitions, each record once."""
