"""Which transaction a record came in, with which source offset; and back from a source offset to its records.

A transaction's records and its source offsets stand in partitions of their own, and Kafka keeps no list of them. They
share the producer id and epoch, and each partition has the marker that ended it. Of the many transactions of one
producer, the right one is told by numbers: brokers number a producer's records in each partition (the sequence number),
and the last source offset of a transaction says how many records the producer had sent before it and with it
(`offsets.record_counts`).
"""
