package io.ringfence.connect;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.OffsetUtils;

/** Converts source partitions and offsets with the converter of Kafka Connect's offset store: same types, same bytes. */
final class OffsetJson {
    private final JsonConverter converter = new JsonConverter();

    OffsetJson() {
        converter.configure(Map.of("schemas.enable", "false"), false);
    }

    /** Returns [[partition, offset], ...]. */
    byte[] pairs(Map<Map<String, ?>, Map<String, ?>> offsets) {
        ByteArrayOutputStream out = new ByteArrayOutputStream(128);
        String before = "[";
        for (Map.Entry<Map<String, ?>, Map<String, ?>> each : offsets.entrySet()) {
            out.writeBytes((before + "[").getBytes(StandardCharsets.US_ASCII));
            out.writeBytes(write(each.getKey()));
            out.write(',');
            out.writeBytes(write(each.getValue()));
            out.write(']');
            before = ",";
        }
        out.writeBytes((offsets.isEmpty() ? "[]" : "]").getBytes(StandardCharsets.US_ASCII));
        return out.toByteArray();
    }

    /** Throws DataException for values that Kafka Connect does not allow in offsets. */
    synchronized byte[] write(Map<String, ?> map) {
        if (map == null) return "null".getBytes(StandardCharsets.US_ASCII);
        OffsetUtils.validateFormat(map);
        return converter.fromConnectData("", null, map);
    }

    /** Returns integers as Long and other numbers as Double, as Kafka Connect's store does. */
    @SuppressWarnings("unchecked")
    synchronized Map<String, Object> read(byte[] json) {
        return (Map<String, Object>) converter.toConnectData("", json).value();
    }
}
