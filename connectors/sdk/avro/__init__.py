"""Avro from elsewhere, with bounds: fastavro reads recursively in C, and believes every count."""
