"""The same requests to Ringfence and to a real Kafka Connect: the test itself is `tests/e2e/test_differential.py`."""
