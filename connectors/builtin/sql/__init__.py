"""SqlSource: reads rows of tables by SQL queries."""
