"""SqlSource: the rows of tables, by queries."""
