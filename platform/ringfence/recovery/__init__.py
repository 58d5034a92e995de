"""Backup and restore: what the cluster keeps in Kafka, in a file, and back."""
