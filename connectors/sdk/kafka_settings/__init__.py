"""Translates the settings of Kafka's Java clients to librdkafka's, for the runtime and for connectors that
read Kafka.
"""
