"""Converters with a Schema Registry: Avro, JSON Schema, Protobuf. They need the extra `schema-registry`."""
