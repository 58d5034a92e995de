"""Converters whose schemas a Schema Registry keeps: Avro, JSON Schema, Protobuf. They need the extra of that name."""
