package io.ringfence.connect;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.TransformationStage;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Handles records for which a transform or converter fails (KIP-298): retries, skips, or replaces the record by a dead
 * letter, which is in the same batch, and so in the same transaction.
 */
final class Tolerance {
    enum Stage { TRANSFORMATION, HEADER_CONVERTER, KEY_CONVERTER, VALUE_CONVERTER }

    private static final Logger LOG = LoggerFactory.getLogger(Tolerance.class);
    private static final String PREFIX = "__connect.errors.";
    private static final String NOT_EXACT =
        "{\"version\":1,\"lost\":\"it was read by a Java connector: let the connector read it from the source again\"}";
    private static final long FIRST_DELAY_MS = 300;
    /** The maximum size of a value in an error; a longer one is truncated. */
    private static final int MOST_BYTES = 1 << 16;

    final boolean plain;
    private final boolean tolerant, logs, messages;
    private final long retryMs, delayMaxMs;
    private final String deadLetters;
    private final ConnectorTaskId id;
    private final JsonConverter json = new JsonConverter();
    private final OffsetJson offsets = new OffsetJson();
    private Stage stage;
    private int done;

    Tolerance(Map<String, String> config, ConnectorTaskId id) {
        tolerant = "all".equalsIgnoreCase(config.getOrDefault("errors.tolerance", "none").trim());
        long retry = Long.parseLong(config.getOrDefault("errors.retry.timeout", "0").trim());
        retryMs = retry < 0 ? Long.MAX_VALUE : retry;
        delayMaxMs = Long.parseLong(config.getOrDefault("errors.retry.delay.max.ms", "60000").trim());
        logs = Boolean.parseBoolean(config.getOrDefault("errors.log.enable", "false").trim());
        messages = Boolean.parseBoolean(config.getOrDefault("errors.log.include.messages", "false").trim());
        String topic = config.getOrDefault("errors.deadletterqueue.topic.name", "").trim();
        deadLetters = tolerant && !topic.isEmpty() ? topic : null;
        plain = !tolerant && retryMs == 0 && !logs;
        this.id = id;
        json.configure(Map.of("schemas.enable", "false"), false);
    }

    /** See {@link Chain#pack}. */
    String tryTo(SourceRecord record, Packer to, Chain chain) {
        stage = Stage.TRANSFORMATION;
        done = 0;
        try {
            SourceRecord current = record;
            for (TransformationStage<SourceRecord> each : chain.stages()) {
                SourceRecord given = current;
                current = retry(() -> each.apply(given));
                if (current == null) return null;
                done++;
            }
            SourceRecord out = current;
            RecordHeaders headers = retry(() -> chain.headers(out), Stage.HEADER_CONVERTER);
            byte[] k = retry(() -> chain.key(out, headers), Stage.KEY_CONVERTER);
            byte[] v = retry(() -> chain.value(out, headers), Stage.VALUE_CONVERTER);
            to.add(out.topic(), out.kafkaPartition(), out.timestamp(), k, v, Chain.pairs(headers));
            return out.topic();
        } catch (Exception error) {
            giveUp(record, error, to, chain.className(stage, done));
            return null;
        }
    }

    private <T> T retry(Supplier<T> step, Stage next) {
        stage = next;
        return retry(step);
    }

    /** Retries a step after RetriableException, with pauses that double. */
    private <T> T retry(Supplier<T> step) {
        long began = System.nanoTime();
        long delay = FIRST_DELAY_MS;
        while (true) {
            try {
                return step.get();
            } catch (RetriableException error) {
                long left = retryMs - (System.nanoTime() - began) / 1_000_000;
                if (left <= 0) throw error;
                pause(Math.min(Math.min(delay, delayMaxMs), left));
                delay *= 2;
            }
        }
    }

    private static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException stopped) {
            throw new ConnectException(stopped);
        }
    }

    /** Returns the exception that fails the task. step: the index of the transform; ignored at other stages. */
    BadRecord refuse(SourceRecord record, Stage stage, int step, String by, Exception error) {
        byte[] value = part(record, false);
        return new BadRecord(Map.of(
            "stage", stage.name(), "step", stage == Stage.TRANSFORMATION ? step : -1, "class_name", by,
            "topic", String.valueOf(record.topic()),
            "source_partition", text(offsets.write(record.sourcePartition())),
            "source_offset", text(offsets.write(record.sourceOffset())),
            "value", value == null ? "" : new String(value, 0, Math.min(value.length, MOST_BYTES), StandardCharsets.UTF_8)),
            error);
    }

    private void giveUp(SourceRecord record, Exception error, Packer to, String by) {
        String partition = text(offsets.write(record.sourcePartition()));
        String offset = text(offsets.write(record.sourceOffset()));
        if (logs)
            LOG.warn("Error in task {} at stage {} in {}: {} (source partition {}, source offset {}{})", id, stage, by,
                error, partition, offset, messages ? ", with the value " + record.value() + " and the key " + record.key() : "");
        if (!tolerant) throw refuse(record, stage, done, by, error);
        to.skipped++;
        if (deadLetters == null) return;
        to.letters++;
        Map<String, String> told = new LinkedHashMap<>();
        told.put("topic", record.topic());
        told.put("connector.name", id.connector());
        told.put("task.id", String.valueOf(id.task()));
        told.put("stage", stage.name());
        told.put("class.name", by);
        told.put("exception.class.name", error.getClass().getName());
        told.put("exception.message", String.valueOf(error.getMessage()));
        told.put("exception.stacktrace", Frames.trace(error));
        told.put("source.partition", partition);
        told.put("source.offset", offset);
        told.put("record", NOT_EXACT);
        List<Object> headers = new ArrayList<>();
        told.forEach((name, each) -> {
            headers.add(PREFIX + name);
            headers.add(ByteBuffer.wrap(each.getBytes(StandardCharsets.UTF_8)));
        });
        to.add(deadLetters, null, record.timestamp(), part(record, true), part(record, false), headers);
    }

    /** Returns key or value of a record that cannot be converted: bytes and strings unchanged, other types as JSON. */
    private byte[] part(SourceRecord record, boolean isKey) {
        Object part = isKey ? record.key() : record.value();
        if (part == null) return null;
        if (part instanceof byte[]) return (byte[]) part;
        if (part instanceof String) return ((String) part).getBytes(StandardCharsets.UTF_8);
        try {
            return json.fromConnectData(record.topic(), isKey ? record.keySchema() : record.valueSchema(), part);
        } catch (RuntimeException error) {
            return String.valueOf(part).getBytes(StandardCharsets.UTF_8);
        }
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
