package io.ringfence.connect;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;

/** Packs the records of standard input, a JSON object each, into one frame. Arguments: the largest batch, and partitions. */
public final class PackRecords {
    public static void main(String[] args) throws Exception {
        int partitions = Integer.parseInt(args[1]);
        BatchPacker packer = new BatchPacker(new OffsetJson(), Integer.parseInt(args[0]), topic -> partitions);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (int round = 0; round < 2; round++) {
            packer.offset(Map.of("file", "f"), Map.of("position", (long) round));
            String line;
            while ((line = lines.readLine()) != null && !line.isEmpty()) add(packer, Frames.JSON.readTree(line));
            ByteBuffer frame = packer.take(round, Packer.COMMIT);
            System.out.write(ByteBuffer.allocate(4).putInt(frame.remaining()).array());
            System.out.write(frame.array(), 0, frame.remaining());
        }
        System.out.flush();
    }

    private static void add(BatchPacker packer, JsonNode record) {
        List<Object> headers = null;
        for (JsonNode each : record.get("headers")) {
            if (headers == null) headers = new ArrayList<>();
            headers.add(each.get(0).asText());
            byte[] value = bytes(each.get(1));
            headers.add(value == null ? null : ByteBuffer.wrap(value));
        }
        JsonNode partition = record.get("partition"), at = record.get("at");
        packer.add(record.get("topic").asText(), partition.isNull() ? null : partition.asInt(), at.isNull() ? null : at.asLong(),
            bytes(record.get("key")), bytes(record.get("value")), headers);
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }
}
