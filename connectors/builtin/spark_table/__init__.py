"""SparkTableSource: tables too big for one task, divided into parts."""
