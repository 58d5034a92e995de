"""PostgresSource: the changes of a PostgreSQL database, by logical replication, in Debezium's records."""
