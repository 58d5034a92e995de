"""A share-partition (KIP-932): its states of records, and how Kafka persists them. Pure, all of it.

`state_machine` is what a share-partition leader does in memory. `control_records` is the form that the KIP's text first
gave it on disk, SHARE_CHECKPOINT and SHARE_DELTA. `state_topic` and `history` are the form of Kafka 4.3: ShareSnapshot
and ShareUpdate in the topic `__share_group_state`, and what they tell when they are read in order.
"""
