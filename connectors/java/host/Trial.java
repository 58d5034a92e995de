package io.ringfence.connect;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.ConnectMetrics;
import org.apache.kafka.connect.runtime.TransformationStage;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * Passes a sample record through the transforms and converters of a configuration, step by step. Nothing is written. Keys,
 * values and headers are JSON; {"schema": …, "payload": …} is a value with a schema, as in Kafka Connect's JsonConverter.
 */
final class Trial implements AutoCloseable {
    private static final String TOPIC = "";
    private final Chain chain;
    private final JsonConverter plain = converter(false), typed = converter(true);

    /** Throws ConfigException for transforms and converters that cannot be created. */
    Trial(Plugins plugins, String path, Map<String, String> workerSettings, Map<String, String> config) {
        WorkerConfig worker = Chain.worker(workerSettings, path);
        ConnectMetrics metrics = new ConnectMetrics("ringfence", worker, Time.SYSTEM, "unknown");
        chain = new Chain(plugins, metrics, worker, config, new ConnectorTaskId("trial", 0));
    }

    private static JsonConverter converter(boolean schemas) {
        JsonConverter made = new JsonConverter();
        made.configure(Map.of("schemas.enable", String.valueOf(schemas), "decimal.format", "NUMERIC"), false);
        return made;
    }

    /** Returns outcome (written, dropped or failed), steps (one for each transform that was applied), written (the result). */
    Map<String, Object> walk(JsonNode given) throws IOException {
        List<Object> steps = new ArrayList<>();
        Map<String, Object> walked = new LinkedHashMap<>();
        walked.put("steps", steps);
        SourceRecord current = read(given);
        for (TransformationStage<SourceRecord> each : chain.stages()) {
            SourceRecord out;
            try {
                out = each.apply(current);
            } catch (Exception | LinkageError error) {
                steps.add(Map.of("outcome", "failed", "error", told(error)));
                return end(walked, "failed", told(error));
            }
            if (out == null) {
                steps.add(Map.of("outcome", "dropped"));
                return end(walked, "dropped", "");
            }
            steps.add(Map.of("outcome", out.equals(current) ? "unchanged" : "changed", "record", shown(out)));
            current = out;
        }
        try {
            walked.put("written", written(current));
        } catch (Exception | LinkageError error) {
            return end(walked, "failed", told(error));
        }
        return end(walked, "written", "");
    }

    @Override
    public void close() {
        chain.close();
    }

    private static Map<String, Object> end(Map<String, Object> walked, String outcome, String error) {
        walked.put("outcome", outcome);
        walked.put("error", error);
        return walked;
    }

    private SourceRecord read(JsonNode given) throws IOException {
        SchemaAndValue key = value(given.get("key")), value = value(given.get("value"));
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode pair : given.get("headers")) headers.add(pair.get(0).asText(), value(pair.get(1)));
        JsonNode partition = given.get("partition"), timestamp = given.get("timestamp");
        return new SourceRecord(Map.of(), Map.of(), given.get("topic").asText(),
            partition.isNull() ? null : partition.asInt(), key.schema(), key.value(), value.schema(), value.value(),
            timestamp.isNull() ? null : timestamp.asLong(), headers);
    }

    private SchemaAndValue value(JsonNode node) throws IOException {
        boolean schema = node.isObject() && node.size() == 2 && node.has("schema") && node.has("payload");
        return (schema ? typed : plain).toConnectData(TOPIC, Frames.JSON.writeValueAsBytes(node));
    }

    private Map<String, Object> shown(SourceRecord record) throws IOException {
        List<Object> headers = new ArrayList<>();
        for (Header each : record.headers()) headers.add(pair(each.key(), json(each.schema(), each.value())));
        Map<String, Object> shown = place(record);
        shown.put("key", json(record.keySchema(), record.key()));
        shown.put("value", json(record.valueSchema(), record.value()));
        shown.put("headers", headers);
        return shown;
    }

    private Map<String, Object> written(SourceRecord record) {
        RecordHeaders made = chain.headers(record);
        Map<String, Object> written = place(record);
        written.put("key", base64(chain.key(record, made)));
        written.put("value", base64(chain.value(record, made)));
        List<Object> headers = new ArrayList<>();
        for (org.apache.kafka.common.header.Header each : made) headers.add(pair(each.key(), base64(each.value())));
        written.put("headers", headers);
        return written;
    }

    private static Map<String, Object> place(SourceRecord record) {
        Map<String, Object> place = new LinkedHashMap<>();
        place.put("topic", record.topic());
        place.put("partition", record.kafkaPartition());
        place.put("timestamp", record.timestamp());
        return place;
    }

    private static List<Object> pair(String name, Object value) {
        List<Object> pair = new ArrayList<>(2); // List.of takes no null
        pair.add(name);
        pair.add(value);
        return pair;
    }

    private JsonNode json(Schema schema, Object value) throws IOException {
        byte[] bytes = plain.fromConnectData(TOPIC, schema, value);
        return bytes == null ? null : Frames.JSON.readTree(bytes);
    }

    private static String base64(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    /** Returns an error with its causes, since a converter's own message contains only the converter. */
    private static String told(Throwable error) {
        StringBuilder text = new StringBuilder(error.toString());
        for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) text.append("; caused by ").append(cause);
        return text.toString();
    }
}
