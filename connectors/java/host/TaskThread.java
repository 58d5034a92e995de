package io.ringfence.connect;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * The thread of the source task: polls, sends batches, passes on commits, stops. It is at most a few batches, and a limited
 * number of bytes, ahead of Python; with transaction.boundary=connector one batch, so that commits are passed on in between.
 */
final class TaskThread {
    private static final int AHEAD = 3;
    private static final long AHEAD_BYTES = 16 << 20;

    private final Frames frames;
    private final Plugins plugins;
    private final String path;
    private final Offsets offsets;
    private final Partitions partitions;
    private final ArrayDeque<Integer> ahead = new ArrayDeque<>();
    private final ArrayDeque<JsonNode> commits = new ArrayDeque<>();
    private long aheadBytes;
    private int most = AHEAD;
    private boolean stopping;
    private volatile long pollingSince;
    private volatile Thread thread;

    TaskThread(Frames frames, Plugins plugins, String path, Offsets offsets) {
        this.frames = frames;
        this.plugins = plugins;
        this.path = path;
        this.offsets = offsets;
        partitions = new Partitions(frames);
    }

    void run(JsonNode order) {
        thread = new Thread(() -> live(order), "task");
        thread.start();
    }

    /** Waits until the task has stopped; returns whether it has within this time. */
    boolean join(long millis) throws InterruptedException {
        if (thread != null) thread.join(millis);
        return thread == null || !thread.isAlive();
    }

    synchronized void taken() {
        aheadBytes -= ahead.remove();
        notifyAll();
    }

    synchronized void committed(JsonNode order) {
        commits.add(order);
        notifyAll();
    }

    void partitions(JsonNode order) {
        partitions.answer(order);
    }

    void stop() {
        partitions.stop();
        synchronized (this) {
            stopping = true;
            notifyAll();
        }
    }

    /** Returns for how long the task's poll has been running; 0 outside of poll. */
    long pollingMs() {
        long since = pollingSince;
        return since == 0 ? 0 : System.currentTimeMillis() - since;
    }

    private void live(JsonNode order) {
        TaskRunner runner = null;
        try {
            Map<String, String> connector = Frames.strings(order.get("connector"));
            ConnectorTaskId id = new ConnectorTaskId(order.get("name").asText(), order.get("number").asInt());
            runner = new TaskRunner(plugins, path, Frames.strings(order.get("worker")), connector,
                Frames.strings(order.get("task")), id, offsets.of(""), order.path("batch_bytes").asInt(0), partitions);
            if ("connector".equalsIgnoreCase(connector.getOrDefault("transaction.boundary", "").trim())) most = 1;
            frames.send(Map.of("event", "started", "version", String.valueOf(runner.task.version()),
                "positions", runner.hears() == TaskRunner.Hears.EVERY, "commits", runner.hearsCommits()));
            while (await(runner)) poll(runner);
        } catch (BadRecord bad) {
            Throwable error = bad.getCause();
            frames.send(Map.of("event", "failed", "kind", error.getClass().getName(), "trace", Frames.trace(error),
                "record", bad.told));
        } catch (Throwable error) {
            frames.send(Map.of("event", "failed", "kind", error.getClass().getName(), "trace", Frames.trace(error)));
            if (error instanceof VirtualMachineError) Runtime.getRuntime().halt(Host.OUT_OF_MEMORY);
        }
        try {
            if (runner != null) runner.stop();
        } catch (Throwable error) {
            error.printStackTrace();
        }
        frames.send(Map.of("event", "stopped"));
    }

    /** Waits until there is room for a batch, and passes on commits; returns false if the task must stop. */
    private boolean await(TaskRunner runner) throws Exception {
        while (true) {
            JsonNode commit;
            synchronized (this) {
                commit = commits.poll();
                if (commit == null) {
                    if (stopping) return false;
                    if (ahead.size() < most && aheadBytes < AHEAD_BYTES) return true;
                    wait();
                }
            }
            if (commit != null) runner.committed(commit.get("through").asLong(), commit.get("positions"));
        }
    }

    private void poll(TaskRunner runner) throws Exception {
        List<ByteBuffer> parts;
        pollingSince = System.currentTimeMillis();
        try {
            parts = runner.poll();
        } catch (RetriableException | org.apache.kafka.common.errors.RetriableException error) {
            frames.send(Map.of("event", "retriable", "message", String.valueOf(error)));
            synchronized (this) {
                if (!stopping && commits.isEmpty()) wait(1000); // independent of the pause in Python
            }
            return;
        } finally {
            pollingSince = 0;
        }
        for (ByteBuffer part : parts) {
            synchronized (this) {
                ahead.add(part.remaining());
                aheadBytes += part.remaining();
            }
            frames.send(runner.kind(), part);
        }
    }
}
