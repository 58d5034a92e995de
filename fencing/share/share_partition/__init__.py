"""A share-partition (KIP-932): the states of its records, and how Kafka persists them. All modules are pure.

`state_machine` is what a share-partition leader does in memory. `control_records` is the persistent format in the first
text of the KIP: SHARE_CHECKPOINT and SHARE_DELTA. `state_topic` and `history` are the format of Kafka 4.3:
ShareSnapshot and ShareUpdate in the topic `__share_group_state`, and the states that follow from them.
"""
