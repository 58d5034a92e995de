"""The connectors that ship with Ringfence, one folder each."""
