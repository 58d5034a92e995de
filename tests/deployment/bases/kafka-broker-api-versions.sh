#!/bin/sh
exec "$JAVA_HOME/bin/java" -cp '/opt/kafka/libs/*' org.apache.kafka.tools.BrokerApiVersionsCommand "$@"
