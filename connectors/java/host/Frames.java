package io.ringfence.connect;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Frames to and from one Python process, with one format in both directions: the length of the rest (u32, big endian),
 * kind (one byte), payload. Kind J is a JSON object, kind B a batch in columns
 * ({@link ColumnPacker}), kind R a batch as record batches ({@link BatchPacker}), kind L a piece of the log.
 */
final class Frames {
    static final ObjectMapper JSON = new ObjectMapper();
    /** The JVM copies an array to write it; for large ones it maps new memory each time. */
    private static final int PIECE = 1 << 16;
    private final OutputStream out;
    private final Runnable onGone;

    /** onGone: called when Python is gone, which no longer reads; the frame is dropped. */
    Frames(OutputStream out, Runnable onGone) {
        this.out = out;
        this.onGone = onGone;
    }

    synchronized void send(char kind, ByteBuffer payload) {
        ByteBuffer head = ByteBuffer.allocate(5);
        head.putInt(payload.remaining() + 1).put((byte) kind);
        try {
            out.write(head.array());
            int end = payload.arrayOffset() + payload.limit();
            for (int at = payload.arrayOffset() + payload.position(); at < end; at += PIECE)
                out.write(payload.array(), at, Math.min(PIECE, end - at));
            out.flush();
        } catch (IOException gone) {
            onGone.run();
        }
    }

    void send(Map<String, ?> message) {
        try {
            send('J', ByteBuffer.wrap(JSON.writeValueAsBytes(message)));
        } catch (IOException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** Returns the next message; Python sends only JSON. Throws EOFException when the parent has ended. */
    static JsonNode read(DataInputStream in) throws IOException {
        byte[] payload = new byte[in.readInt() - 1];
        in.readByte();
        in.readFully(payload);
        return JSON.readTree(payload);
    }

    static Map<String, String> strings(JsonNode node) {
        Map<String, String> map = new LinkedHashMap<>();
        node.fields().forEachRemaining(each -> {
            if (!each.getValue().isNull()) map.put(each.getKey(), each.getValue().asText());
        });
        return map;
    }

    static String trace(Throwable error) {
        StringWriter text = new StringWriter();
        error.printStackTrace(new PrintWriter(text));
        return text.toString();
    }
}
