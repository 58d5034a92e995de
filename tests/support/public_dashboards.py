"""What the public dashboards and alert rules for Kafka Connect ask Prometheus, and why some of it has no answer here.

Strimzi's are in its repository below `examples/metrics`, Confluent's in jmx-monitoring-stacks below
`jmxexporter-prometheus-grafana`. `$…` stands for the selectors that each of their panels repeats.
"""

from dataclasses import dataclass, field
from typing import Final

JVM: Final = "Workers and tasks are Python processes; the JVMs of Spark and of Java plugins are not measured"
CLIENT: Final = (
    "The connections of librdkafka, and of our own producer, are not counted as Kafka's Java clients count theirs"
)
SINK: Final = "There are no sink connectors"
KUBELET: Final = "The kubelet measures it, not Kafka Connect"
REBALANCE: Final = "How long an election takes is not measured"
CALM: Final = "It shows only what is wrong"


@dataclass(frozen=True, slots=True)
class PublicDashboard:
    """names: of `GET /metrics?names=…`; labels: those that its authors' scrape configurations add to each series.

    shown: an expression on each line, which goes on where the next line is indented; empty: others, by the reason why
    they find nothing.
    """

    names: str
    labels: dict[str, str]
    shown: str
    empty: dict[str, str] = field(default_factory=dict)

    def expressions(self) -> list[tuple[str, str]]:
        """Each expression as Grafana sends it, and why it finds nothing, "" if it must find something."""
        shown = [(expression, "") for expression in _split(self.shown)]
        return shown + [(expression, why) for why, lines in self.empty.items() for expression in _split(lines)]


_STRIMZI: Final = {
    "namespace": "kafka", "strimzi_io_kind": "KafkaConnect", "strimzi_io_cluster": "mine",
    "kubernetes_pod_name": "mine-0", "pod": "mine-connect-0", "container": "mine-connect",
}  # fmt: skip
_CONFLUENT: Final = {"job": "kafka-connect", "env": "test", "kafka_connect_cluster_id": "mine"}
_SELECTORS: Final = {
    "$S": 'strimzi_io_kind=~"KafkaConnect.*",strimzi_io_cluster="mine"',
    "$N": 'namespace="kafka"',
    "$P": 'pod=~"mine-connect-.+",container="mine-connect"',
    "$C": 'job="kafka-connect",env="test",instance=~".+",kafka_connect_cluster_id=~"mine"',
    "$I": 'job="kafka-connect",env="test",instance=~".+"',
    "$A": 'connector=~".+"',
}


def _split(lines: str) -> list[str]:
    """The expressions with the variables of their dashboard chosen."""
    for name, selector in _SELECTORS.items():
        lines = lines.replace(name, selector)
    return lines.replace("\n  ", " ").split("\n")[1:-1]


STRIMZI: Final = PublicDashboard(
    "strimzi",
    _STRIMZI,
    """
sum(kafka_connect_connector_status{$S}
  * on(connector) group_left(connector_class) kafka_connect_connector_connector_class{}
  * on (connector) group_left(connector_version) kafka_connect_connector_connector_version{}
  * on (connector) group_left(connector_type) kafka_connect_connector_connector_type{})
  by (connector, status, connector_class, kubernetes_pod_name, connector_version, connector_type)
sum(kafka_connect_coordinator_assigned_connectors{$S}) by (kubernetes_pod_name)
sum(kafka_connect_coordinator_assigned_tasks{$S}) by (kubernetes_pod_name)
sum(kafka_connect_task_error_total_record_failures{$S}
  * on(connector, task) group_left(status) kafka_connect_connector_task_status{})
  by (connector, status, kubernetes_pod_name, task)
sum(kafka_connect_worker_connector_count{$S})
sum(kafka_connect_worker_connector_destroyed_task_count{$S})
sum(kafka_connect_worker_connector_failed_task_count{$N,$S}) by (connector) != 0
sum(kafka_connect_worker_connector_failed_task_count{$S})
sum(kafka_connect_worker_connector_paused_task_count{$N,$S}) by (connector) != 0
sum(kafka_connect_worker_connector_paused_task_count{$S})
sum(kafka_connect_worker_connector_running_task_count{$S})
sum(kafka_connect_worker_connector_unassigned_task_count{$S})
sum(kafka_connect_worker_rebalance_rebalancing{$S})
sum(kafka_connect_worker_task_count{$S})
sum(rate(kafka_producer_outgoing_byte_total{$S}[5m])) by (kubernetes_pod_name)
sum(kafka_connect_worker_connector_failed_task_count) by (namespace, pod) > 0
""",
    {
        JVM: """
sum (jvm_memory_used_bytes{$S}) by (kubernetes_pod_name)
sum(jvm_threads_current{$N,$S}) by (kubernetes_pod_name)
sum(rate(jvm_gc_collection_seconds_sum{$S}[5m])) by (kubernetes_pod_name)
""",
        CLIENT: """
sum(kafka_admin_client_connection_count{$S})
sum(kafka_consumer_connection_count{$S})
sum(kafka_producer_connection_count{$S})
sum(rate(kafka_consumer_incoming_byte_total{$S}[5m])) by (kubernetes_pod_name)
""",
        CALM: """
sum(kafka_connect_worker_connector_destroyed_task_count{$N,$S}) by (connector) != 0
sum(kafka_connect_worker_connector_unassigned_task_count{$N,$S}) by (connector) != 0
sum(kafka_connect_connector_status{status="failed"}) by (namespace, pod) > 0
""",
        KUBELET: """
sum(rate(container_cpu_usage_seconds_total{$N,$P}[5m])) by (pod)
""",
    },
)
STRIMZI_REPORTER: Final = PublicDashboard(
    "strimzi-reporter",
    _STRIMZI,
    """
sum(kafka_connect_connect_coordinator_metrics_assigned_connectors{$S}) by (kubernetes_pod_name)
sum(kafka_connect_connect_coordinator_metrics_assigned_tasks{$S}) by (kubernetes_pod_name)
sum(kafka_connect_connect_worker_metrics_connector_count{$S})
sum(kafka_connect_connect_worker_metrics_connector_destroyed_task_count{$S})
sum(kafka_connect_connect_worker_metrics_connector_failed_task_count{$N,$S}) by (connector) != 0
sum(kafka_connect_connect_worker_metrics_connector_failed_task_count{$S})
sum(kafka_connect_connect_worker_metrics_connector_paused_task_count{$N,$S}) by (connector) != 0
sum(kafka_connect_connect_worker_metrics_connector_paused_task_count{$S})
sum(kafka_connect_connect_worker_metrics_connector_running_task_count{$S})
sum(kafka_connect_connect_worker_metrics_connector_unassigned_task_count{$S})
sum(kafka_connect_connect_worker_metrics_task_count{$S})
sum(kafka_connect_connect_worker_rebalance_metrics_rebalancing{$S})
sum(kafka_connect_connector_metrics_status_info{$S}
  * on (connector) group_left(connector_class) kafka_connect_connector_metrics_connector_class_info{}
  * on (connector) group_left(connector_version) kafka_connect_connector_metrics_connector_version_info{}
  * on (connector) group_left(connector_type) kafka_connect_connector_metrics_connector_type_info{})
  by (connector, status, connector_class, kubernetes_pod_name, connector_version, connector_type)
sum(kafka_connect_task_error_metrics_total_record_failures{$S}
  * on(connector, task) group_left(status) kafka_connect_connector_task_metrics_status_info{})
  by (connector, status, kubernetes_pod_name, task)
sum(rate(kafka_producer_producer_metrics_outgoing_byte{$S}[5m])) by (kubernetes_pod_name)
sum(rate(process_cpu_seconds_total{$N,$P}[5m])) by (pod)
""",
    {
        JVM: """
sum (jvm_memory_used_bytes{$S}) by (kubernetes_pod_name)
sum(jvm_threads_current{$N,$S}) by (kubernetes_pod_name)
sum(rate(jvm_gc_collection_seconds_sum{$S}[5m])) by (kubernetes_pod_name)
""",
        CLIENT: """
sum(kafka_admin_client_admin_client_metrics_connection_count{$S})
sum(kafka_consumer_consumer_metrics_connection_count{$S})
sum(kafka_producer_producer_metrics_connection_count{$S})
sum(rate(kafka_producer_producer_node_metrics_incoming_byte{$S}[5m])) by (kubernetes_pod_name)
""",
        CALM: """
sum(kafka_connect_connect_worker_metrics_connector_destroyed_task_count{$N,$S}) by (connector) != 0
sum(kafka_connect_connect_worker_metrics_connector_unassigned_task_count{$N,$S}) by (connector) != 0
""",
    },
)
CONFLUENT: Final = PublicDashboard(
    "confluent",
    _CONFLUENT,
    """
sum(kafka_connect_connect_worker_metrics_connector_failed_task_count) > 0
kafka_connect_app{$C,client_id!="",start_time_ms!=""}
kafka_connect_app{$C,client_id!="",version!=""}
kafka_connect_connect_worker_rebalance_metrics_completed_rebalances{$C} >= 0
kafka_connect_connect_worker_rebalance_metrics_time_since_last_rebalance_ms{$C} >= 0
kafka_connect_connector_metrics{$C,$A,connector_class!=""}
kafka_connect_connector_metrics{$C,$A,connector_type!=""}
kafka_connect_connector_metrics{$C,$A,connector_version!=""}
kafka_connect_connector_metrics{$C,$A,status!=""}
kafka_connect_connector_task_metrics_batch_size_avg{$C,$A}
kafka_connect_connector_task_metrics_batch_size_max{$C,$A}
kafka_connect_connector_task_metrics_offset_commit_avg_time_ms{$C,$A}
kafka_connect_connector_task_metrics_offset_commit_success_percentage{$C,$A}
kafka_connect_connector_task_metrics_running_ratio{$C,$A}
kafka_connect_source_task_metrics_poll_batch_avg_time_ms{$C,$A,task!=""}
kafka_connect_source_task_metrics_poll_batch_max_time_ms{$C,$A,task!=""}
kafka_connect_source_task_metrics_source_record_active_count_avg{$C,$A,task!=""}
kafka_connect_source_task_metrics_source_record_active_count_max{$C,$A,task!=""}
kafka_connect_source_task_metrics_source_record_poll_rate{$C,$A,task!=""}
kafka_connect_source_task_metrics_source_record_write_rate{$C,$A,task!=""}
kafka_connect_task_error_metrics_deadletterqueue_produce_failures{$C,$A}
kafka_connect_task_error_metrics_deadletterqueue_produce_requests{$C,$A}
kafka_connect_task_error_metrics_total_errors_logged{$C,$A}
kafka_connect_task_error_metrics_total_record_errors{$C,$A}
kafka_connect_task_error_metrics_total_record_failures{$C,$A}
kafka_connect_task_error_metrics_total_records_skipped{$C,$A}
kafka_connect_task_error_metrics_total_retries{$C,$A}
rate(process_cpu_seconds_total{$C}[5m])
sum (kafka_connect_connector_metrics{$C,$A,status!=""}) by (status)
sum (kafka_connect_connector_metrics{$C,$A,status="paused"})
sum (kafka_connect_connector_metrics{$C,$A,status="running"})
sum (kafka_connect_connector_metrics{$C,$A,status="stopped"})
sum by (connector) (kafka_connect_connect_worker_metrics_connector_destroyed_task_count{$C,$A})
sum by (connector) (kafka_connect_connect_worker_metrics_connector_failed_task_count{$C,$A})
sum by (connector) (kafka_connect_connect_worker_metrics_connector_paused_task_count{$C,$A})
sum by (connector) (kafka_connect_connect_worker_metrics_connector_running_task_count{$C,$A})
sum by (connector) (kafka_connect_connect_worker_metrics_connector_total_task_count{$C,$A})
sum by (connector) (kafka_connect_connect_worker_metrics_connector_unassigned_task_count{$C,$A})
sum by (instance) (kafka_connect_connect_worker_metrics_connector_count{$I})
sum by (instance) (kafka_connect_connect_worker_metrics_connector_startup_failure_total{$I})
sum by (instance) (kafka_connect_connect_worker_metrics_connector_startup_success_total{$I})
sum by (instance) (kafka_connect_connect_worker_metrics_task_count{$I})
sum by (instance) (kafka_connect_connect_worker_metrics_task_startup_failure_total{$I})
sum by (instance) (kafka_connect_connect_worker_metrics_task_startup_success_total{$I})
sum(kafka_connect_connect_worker_metrics_connector_destroyed_task_count{$C,$A})
sum(kafka_connect_connect_worker_metrics_connector_failed_task_count{$C,$A})
sum(kafka_connect_connect_worker_metrics_connector_paused_task_count{$C,$A})
sum(kafka_connect_connect_worker_metrics_connector_running_task_count{$C,$A})
sum(kafka_connect_connect_worker_metrics_connector_total_task_count{$C,$A})
sum(kafka_connect_connect_worker_metrics_connector_unassigned_task_count{$C,$A})
""",
    {
        JVM: """
jvm_memory_bytes_max{$C,area="heap"}
sum without(area)(jvm_memory_used_bytes{$C})
sum without(gc)(rate(jvm_gc_collection_seconds_sum{$C}[5m]))
""",
        CLIENT: """
kafka_connect_connect_metrics_connection_count{$C,client_id!=""}
kafka_connect_connect_metrics_failed_authentication{$C,client_id!=""}
kafka_connect_connect_metrics_incoming_byte_rate{$C,client_id!=""}
kafka_connect_connect_metrics_io_ratio{$C,client_id!=""}
kafka_connect_connect_metrics_network_io_rate{$C,client_id!=""}
kafka_connect_connect_metrics_outgoing_byte_rate{$C,client_id!=""}
kafka_connect_connect_metrics_request_rate{$C,client_id!=""}
kafka_connect_connect_metrics_response_rate{$C,client_id!=""}
kafka_connect_connect_metrics_successful_authentication_rate{$C,client_id!=""}
""",
        REBALANCE: """
kafka_connect_connect_worker_rebalance_metrics_rebalance_avg_time_ms{$C}
""",
        SINK: """
kafka_connect_sink_task_metrics_offset_commit_completion_rate{$C,$A,task!=""}
kafka_connect_sink_task_metrics_offset_commit_skip_rate{$C,$A,task!=""}
kafka_connect_sink_task_metrics_partition_count{$C,$A,task!=""}
kafka_connect_sink_task_metrics_put_batch_avg_time_ms{$C,$A,task!=""}
kafka_connect_sink_task_metrics_put_batch_max_time_ms{$C,$A,task!=""}
kafka_connect_sink_task_metrics_sink_record_active_count_avg{$C,$A,task!=""}
kafka_connect_sink_task_metrics_sink_record_active_count_max{$C,$A,task!=""}
kafka_connect_sink_task_metrics_sink_record_read_rate{$C,$A,task!=""}
kafka_connect_sink_task_metrics_sink_record_send_rate{$C,$A,task!=""}
""",
    },
)
"""For version 1 of the JMX exporter."""
CONFLUENT_OLD: Final = PublicDashboard(
    "confluent",
    _CONFLUENT,
    """
kafka_connect_app_info{$C,client_id!="",start_time_ms!=""}
kafka_connect_app_info{$C,client_id!="",version!=""}
kafka_connect_connect_worker_rebalance_metrics_completed_rebalances_total{$C} >= 0
""",
    {
        JVM: """
sum without(area)(jvm_memory_bytes_used{$C})
""",
        CLIENT: """
kafka_connect_connect_metrics_failed_authentication_total{$C,client_id!=""}
""",
    },
)
"""For older versions: what differs."""
