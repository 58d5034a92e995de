package io.ringfence.connect;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.ToIntFunction;
import java.util.zip.CRC32C;
import org.apache.kafka.common.utils.Utils;

/**
 * Packs records as Kafka's record batches (version 2, not compressed), so that nobody handles single records after it.
 * Python puts the head before each batch: it knows the producer, and the sequence numbers.
 *
 * <p>Little endian: u64 number, u32 flags, u32 skipped, u32 letters, the offsets as JSON after their length (u32), u32
 * batches. Each batch: the topic after its length, partition (i32, -1 is any), records (u32), bytes of the values (u32),
 * CRC-32C of its records (u32), timestamps of the first and of the newest record (i64), its records after their length.
 */
final class BatchPacker extends Packer {
    private static final int START_BYTES = 1 << 16;
    private static final int MOST_SPARE = 8;

    private final int batchBytes;
    private final ToIntFunction<String> partitions;
    private final List<Batch> batches = new ArrayList<>();
    private final Map<String, Map<Integer, Batch>> open = new HashMap<>();
    private final ArrayDeque<byte[]> spare = new ArrayDeque<>();
    private String lastTopic;
    private int lastPartition;
    private Batch last;

    /** batchBytes: a batch of several records is no larger. partitions: returns the number of a topic's partitions. */
    BatchPacker(OffsetJson json, int batchBytes, ToIntFunction<String> partitions) {
        super(json);
        this.batchBytes = batchBytes;
        this.partitions = partitions;
    }

    @Override
    char kind() {
        return 'R';
    }

    @Override
    void add(String topic, Integer partition, Long timestamp, byte[] key, byte[] value, List<Object> headers) {
        int to = partition != null ? partition : key == null ? -1 : partitionOf(topic, key);
        long at = timestamp == null || timestamp <= 0 ? System.currentTimeMillis() : timestamp;
        byte[] encodedHeaders = headers == null ? null : encode(headers);
        Batch batch = batchFor(topic, to);
        if (!batch.add(at, key, value, encodedHeaders, batchBytes)) {
            batch = begin(topic, to);
            batch.add(at, key, value, encodedHeaders, batchBytes);
        }
        count(key, value);
    }

    /** As Kafka's own producer does it. */
    private int partitionOf(String topic, byte[] key) {
        return Utils.toPositive(Utils.murmur2(key)) % partitions.applyAsInt(topic);
    }

    private Batch batchFor(String topic, int partition) {
        if (last != null && partition == lastPartition && topic.equals(lastTopic)) return last;
        Map<Integer, Batch> of = open.get(topic);
        Batch found = of == null ? null : of.get(partition);
        if (found == null) return begin(topic, partition);
        return remember(topic, partition, found);
    }

    private Batch begin(String topic, int partition) {
        byte[] buffer = spare.poll();
        Batch batch = new Batch(topic, partition, buffer == null ? new byte[START_BYTES] : buffer);
        batches.add(batch);
        open.computeIfAbsent(topic, ignored -> new HashMap<>()).put(partition, batch);
        return remember(topic, partition, batch);
    }

    private Batch remember(String topic, int partition, Batch batch) {
        lastTopic = topic;
        lastPartition = partition;
        last = batch;
        return batch;
    }

    @Override
    ByteBuffer take(long number, int ending) {
        byte[] where = offsets();
        long total = 28L + where.length;
        for (Batch each : batches) total += each.frameSize();
        ByteBuffer to = allocate(total);
        to.putLong(number).putInt(ending).putInt(skipped).putInt(letters);
        to.putInt(where.length).put(where).putInt(batches.size());
        for (Batch each : batches) each.write(to);
        to.flip();
        clear();
        return to;
    }

    @Override
    void clear() {
        super.clear();
        for (Batch each : batches)
            if (spare.size() < MOST_SPARE && each.buffer.length <= 2 * batchBytes) spare.add(each.buffer);
        batches.clear();
        open.clear();
        last = null;
    }

    private static byte[] encode(List<Object> headers) {
        Batch to = new Batch("", 0, new byte[256]);
        to.varint(headers.size() / 2);
        for (int i = 0; i < headers.size(); i += 2) {
            to.blob(((String) headers.get(i)).getBytes(StandardCharsets.UTF_8));
            ByteBuffer value = (ByteBuffer) headers.get(i + 1);
            to.blob(value == null ? null : Utils.toArray(value));
        }
        return Arrays.copyOf(to.buffer, to.at);
    }

    /** The records of one batch. */
    private static final class Batch {
        private final byte[] topic;
        private final int partition;
        private byte[] buffer;
        private int at, count, valueBytes;
        private long first, newest;

        Batch(String topic, int partition, byte[] buffer) {
            this.topic = topic.getBytes(StandardCharsets.UTF_8);
            this.partition = partition;
            this.buffer = buffer;
        }

        /** Returns false, with nothing added, if it has records and would become larger than this. */
        boolean add(long timestamp, byte[] key, byte[] value, byte[] headers, int mostBytes) {
            long delta = count == 0 ? 0 : timestamp - first;
            long length = 1L + size(delta) + size(count) + blobSize(key) + blobSize(value);
            length += headers == null ? 1 : headers.length;
            if (length > Integer.MAX_VALUE - 64) throw new IllegalStateException("A record of " + length + " bytes is too large");
            int whole = (int) length + size(length);
            if (count > 0 && at + whole > mostBytes) return false;
            reserve(whole);
            varint(length);
            buffer[at++] = 0;
            varint(delta);
            varint(count);
            blob(key);
            blob(value);
            if (headers == null) buffer[at++] = 0;
            else put(headers);
            if (count++ == 0) first = newest = timestamp;
            else newest = Math.max(newest, timestamp);
            valueBytes += value == null ? 0 : value.length;
            return true;
        }

        long frameSize() {
            return 40L + topic.length + at;
        }

        void write(ByteBuffer to) {
            CRC32C crc = new CRC32C();
            crc.update(buffer, 0, at);
            to.putInt(topic.length).put(topic).putInt(partition).putInt(count).putInt(valueBytes).putInt((int) crc.getValue());
            to.putLong(first).putLong(newest).putInt(at).put(buffer, 0, at);
        }

        private void reserve(int more) {
            if (buffer.length - at < more) buffer = Arrays.copyOf(buffer, Math.max(at + more, 2 * buffer.length));
        }

        private void blob(byte[] bytes) {
            reserve(10 + (bytes == null ? 0 : bytes.length));
            varint(bytes == null ? -1 : bytes.length);
            if (bytes != null) put(bytes);
        }

        private void put(byte[] bytes) {
            System.arraycopy(bytes, 0, buffer, at, bytes.length);
            at += bytes.length;
        }

        /** Writes a number in Kafka's zigzag encoding. */
        private void varint(long value) {
            long left = (value << 1) ^ (value >> 63);
            while ((left & ~0x7fL) != 0) {
                buffer[at++] = (byte) (left | 0x80);
                left >>>= 7;
            }
            buffer[at++] = (byte) left;
        }

        private static int blobSize(byte[] bytes) {
            return bytes == null ? 1 : size(bytes.length) + bytes.length;
        }

        private static int size(long value) {
            long zigzag = (value << 1) ^ (value >> 63);
            return zigzag == 0 ? 1 : (70 - Long.numberOfLeadingZeros(zigzag)) / 7;
        }
    }
}
