package io.ringfence.connect;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A batch that was handed over and is not committed yet, as far as its task wants to hear of it. */
final class OpenBatch {
    /** topic: where the record went, null where a transform dropped it or it became a dead letter; row: in the batch. */
    private record Sent(SourceRecord record, String topic, int row) { }

    private final TaskRunner.Hears hears;
    private final List<Sent> every = new ArrayList<>();
    private final Map<Map<String, ?>, SourceRecord> newest = new LinkedHashMap<>();
    private SourceRecord last;
    private long number;
    private int rows;

    OpenBatch(TaskRunner.Hears hears) {
        this.hears = hears;
    }

    void add(SourceRecord record, String topic, int row) {
        switch (hears) {
            case EVERY: every.add(new Sent(record, topic, row)); break;
            case NEWEST: addNewest(record); break;
            default: break;
        }
    }

    /** Most records in a row have the very same partition object, which is not compared again. */
    private void addNewest(SourceRecord record) {
        if (last != null && last.sourcePartition() != record.sourcePartition()) newest.put(last.sourcePartition(), last);
        last = record;
    }

    void close(long number, int rows) {
        this.number = number;
        this.rows = rows;
    }

    long number() {
        return number;
    }

    int rows() {
        return rows;
    }

    /** first: where this batch begins among the positions. */
    void tell(SourceTask task, JsonNode positions, int first) throws InterruptedException {
        for (Sent each : every) task.commitRecord(each.record, metadata(each, positions, first));
        if (last != null) newest.put(last.sourcePartition(), last);
        for (SourceRecord each : newest.values()) task.commitRecord(each, null);
    }

    private static RecordMetadata metadata(Sent sent, JsonNode positions, int first) {
        JsonNode found = sent.topic == null || positions == null ? null : positions.get(first + sent.row);
        if (found == null || found.isNull()) return null;
        TopicPartition where = new TopicPartition(sent.topic, found.get(0).asInt());
        return new RecordMetadata(where, found.get(1).asLong(), 0, found.get(2).asLong(), -1, -1);
    }
}
