"""SparkTableSource: reads tables that are too big for one task, in parts."""
