"""Dead letter queue records, listed and replayed."""
