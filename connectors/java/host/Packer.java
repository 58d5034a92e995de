package io.ringfence.connect;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Gathers converted records, and the newest offset of each source partition, for one frame to Python. */
abstract class Packer {
    static final int COMMIT = 1, ABORT = 2;

    private final OffsetJson json;
    private final Map<Map<String, ?>, Map<String, ?>> offsets = new LinkedHashMap<>();
    private Map<String, ?> lastPartition, lastOffset;
    int records, size, skipped, letters;

    Packer(OffsetJson json) {
        this.json = json;
    }

    /** Adds a record. headers: name, value, name, value, ... with values as ByteBuffer or null; null for no headers. */
    abstract void add(String topic, Integer partition, Long timestamp, byte[] key, byte[] value, List<Object> headers);

    /** Returns the frame's payload, and empties the packer. ending: COMMIT, ABORT or 0. */
    abstract ByteBuffer take(long number, int ending);

    /** The kind of its frames. */
    abstract char kind();

    /** Sets the newest offset of a source partition, also for a record that a transform drops. */
    final void offset(Map<String, ?> source, Map<String, ?> offset) {
        if (lastPartition != null && lastPartition != source && !lastPartition.equals(source)) offsets.put(lastPartition, lastOffset);
        lastPartition = source;
        lastOffset = offset;
    }

    final boolean empty() {
        return records == 0 && lastPartition == null;
    }

    /** Returns the bytes of all keys and values. */
    final int size() {
        return size;
    }

    final int records() {
        return records;
    }

    /** Returns the offsets as JSON. */
    final byte[] offsets() {
        if (lastPartition != null) offsets.put(lastPartition, lastOffset);
        return json.pairs(offsets);
    }

    final void count(byte[] key, byte[] value) {
        size += (key == null ? 0 : key.length) + (value == null ? 0 : value.length);
        records++;
    }

    static ByteBuffer allocate(long size) {
        if (size > Integer.MAX_VALUE - 16)
            throw new IllegalStateException("A batch of " + size + " bytes is too large: let the connector read less at a time");
        return ByteBuffer.allocate((int) size).order(ByteOrder.LITTLE_ENDIAN);
    }

    void clear() {
        records = size = skipped = letters = 0;
        offsets.clear();
        lastPartition = lastOffset = null;
    }

    /** Strings and byte arrays, each after its length. */
    static final class Blobs extends ByteArrayOutputStream {
        void number(int value) {
            writeBytes(ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(value).array());
        }

        void blob(ByteBuffer value) {
            number(value == null ? -1 : value.remaining());
            if (value != null) write(value.array(), value.arrayOffset() + value.position(), value.remaining());
        }
    }
}
