"""Backup and restore of the cluster's state in Kafka, to and from a file."""
