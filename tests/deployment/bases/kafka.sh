#!/bin/sh
# As Kafka's image does: KAFKA_LOG_DIRS=/x becomes log.dirs=/x, and `___` a dash. The jars are mounted at /opt/kafka/libs.
set -ef # no folder of jars for a pattern: the `*` is Java's
env | sed -n 's/^KAFKA_\([A-Z0-9_]*\)=/\1=/p' | while IFS='=' read -r name value; do
    printf '%s=%s\n' "$(printf %s "$name" | tr 'A-Z_' 'a-z.' | sed 's/\.\.\./-/g; s/\.\./_/g')" "$value"
done > /tmp/server.properties
java="$JAVA_HOME/bin/java -Xmx512m -XX:+UseSerialGC -cp /opt/kafka/libs/*"
$java kafka.tools.StorageTool format --ignore-formatted --config /tmp/server.properties --cluster-id "$CLUSTER_ID"
exec $java kafka.Kafka /tmp/server.properties
