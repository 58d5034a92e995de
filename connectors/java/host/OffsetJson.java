package io.ringfence.connect;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.OffsetUtils;

/** Source partitions and offsets by the converter that Kafka Connect's own offset store uses: same types, same bytes. */
final class OffsetJson {
    private final JsonConverter converter = new JsonConverter();

    OffsetJson() {
        converter.configure(Map.of("schemas.enable", "false"), false);
    }

    /** [[partition, offset], ...] */
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

    /** Throws DataException for what Kafka Connect keeps no offset of. */
    synchronized byte[] write(Map<String, ?> map) {
        if (map == null) return "null".getBytes(StandardCharsets.US_ASCII);
        OffsetUtils.validateFormat(map);
        return converter.fromConnectData("", null, map);
    }

    /** Integers come as Long and other numbers as Double, as from Kafka Connect's store. */
    @SuppressWarnings("unchecked")
    synchronized Map<String, Object> read(byte[] json) {
        return (Map<String, Object>) converter.toConnectData("", json).value();
    }
}
