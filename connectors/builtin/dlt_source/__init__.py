"""DltSource: REST APIs by configuration, and the resources of dlt sources."""
