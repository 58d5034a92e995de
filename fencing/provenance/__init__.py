"""Finds the transaction and the source offset of a record, and the records of a source offset.

A transaction's records and its source offsets are in different partitions, and Kafka keeps no list of them. They have
the same producer id and epoch, and each partition has the marker that ended the transaction. Numbers identify one of
the producer's many transactions: brokers number a producer's records in each partition (the sequence number), and the
last source offset of a transaction has the number of records that the producer had sent before it and with it
(`offsets.record_counts`).
"""
