"""PySparkSource: PySpark's Python data sources as connectors."""
