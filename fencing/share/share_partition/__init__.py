"""A share-partition (KIP-932): the states of its records, and how Kafka persists them. All modules are pure.

`state_machine` is what a share-partition leader does in memory. `state_topic` is the format of Kafka 4.3: ShareSnapshot
and ShareUpdate in the topic `__share_group_state`, and the states that follow from them.
"""
