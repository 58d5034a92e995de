"""PySparkSource: Python data sources of PySpark, as connectors."""
