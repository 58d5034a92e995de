"""Source connectors: what a connector author imports, and the connectors that ship with Ringfence."""
