"""Public helpers for connector authors, beside the interface in `ringfence.connectors.api`.

The built-in connectors import nothing else from Ringfence, except the converters. docs/writing-a-connector.md
("Helpers") says what is here. Public names stay for all versions that share a minor version; what goes is announced in
the CHANGELOG one minor version before, and raises a DeprecationWarning until then.
"""
