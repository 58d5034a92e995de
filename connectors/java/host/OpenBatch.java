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

/** A batch that was sent and is not committed yet, with the records that its task must be notified of. */
final class OpenBatch {
    /** topic: the record's topic, null if a transform dropped it or it became a dead letter; row: its row in the batch. */
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

    /** Compares identities first, because consecutive records mostly have the same partition object. */
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

    /** Notifies the task that the batch is committed. first: the index of the batch's first position. */
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
