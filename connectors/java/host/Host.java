package io.ringfence.connect;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.connect.runtime.isolation.Plugins;

/**
 * One source task, or the calls to connectors, for one Python process, from which it reads requests. {@link #main} runs it in
 * a process of its own: it reads requests from standard input, writes frames to standard output, and logs to standard error.
 * It ends with its parent: when standard input ends.
 */
public final class Host {
    static final int OUT_OF_MEMORY = 3;
    private static final long BEAT_MS = 2000;
    private static final long METRICS_MS = 5000;

    private final Frames frames;
    private final Owner owner;
    private final Offsets offsets;
    private final ConnectorCalls calls;
    private final TaskThread task;

    /** owner: whose MBeans are its metrics; null if all in this process are. */
    Host(Frames frames, Plugins plugins, String path, Owner owner) {
        this.frames = frames;
        this.owner = owner;
        offsets = new Offsets(frames);
        calls = new ConnectorCalls(frames, plugins, path, offsets);
        task = new TaskThread(frames, plugins, path, offsets);
    }

    public static void main(String[] args) throws Exception {
        Frames frames = new Frames(new FileOutputStream(FileDescriptor.out), () -> Runtime.getRuntime().halt(0));
        System.setOut(System.err); // a plugin's output goes to the log
        endOnVirtualMachineErrors();
        new Host(frames, plugins(args[0]), args[0], null).serve(new FileInputStream(FileDescriptor.in));
        Runtime.getRuntime().halt(0);
    }

    static Plugins plugins(String path) {
        return new Plugins(Map.of(
            "plugin.path", path, "plugin.discovery", System.getProperty("plugin.discovery", "service_load")));
    }

    static void endOnVirtualMachineErrors() {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            error.printStackTrace();
            if (error instanceof VirtualMachineError) Runtime.getRuntime().halt(OUT_OF_MEMORY);
        });
    }

    /** Takes requests until Python is gone. */
    void serve(InputStream requests) throws IOException {
        DataInputStream in = new DataInputStream(new BufferedInputStream(requests, 1 << 16));
        frames.send(Map.of("event", "ready"));
        Thread beat = start(this::beat, "heartbeat");
        Thread metrics = start(this::tellMetrics, "metrics");
        try {
            while (true) take(Frames.read(in));
        } catch (EOFException end) {
            // Python has ended, or has no more requests
        } finally {
            beat.interrupt();
            metrics.interrupt();
        }
    }

    /** Stops the task; returns whether it has stopped in time. */
    boolean end(long millis) throws InterruptedException {
        task.stop();
        return task.join(millis);
    }

    /** Starts a thread that does not keep the process. */
    static Thread start(Runnable what, String name) {
        Thread thread = new Thread(what, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private void take(JsonNode order) {
        switch (order.get("op").asText()) {
            case "answer": offsets.answer(order); break;
            case "run": run(order); break;
            case "taken": task.taken(); break;
            case "partitions": task.partitions(order); break;
            case "committed": task.committed(order); break;
            case "stop": task.stop(); break;
            case "warm": calls.warm(); System.exit(0); break;
            case "level": Levels.set(order.get("logger").asText(), order.get("level").asText()); break;
            default: new Thread(() -> call(order), "call").start();
        }
    }

    private void run(JsonNode order) {
        if (owner != null) owner.name(order.get("name").asText() + "-" + order.get("number").asInt());
        task.run(order);
    }

    private void call(JsonNode order) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", order.get("id").asInt());
        try {
            answer.put("result", calls.answer(order));
        } catch (Exception | LinkageError error) {
            answer.put("error", String.valueOf(error.getMessage() == null ? error : error.getMessage()));
            answer.put("kind", error.getClass().getName());
            answer.put("trace", Frames.trace(error));
        }
        frames.send(answer);
    }

    /** Runs on its own thread, so that an MBean that hangs does not stop the heartbeat. */
    private void tellMetrics() {
        try {
            while (true) {
                Thread.sleep(METRICS_MS);
                Map<String, Object> found = Metrics.read(owner);
                if (!found.isEmpty()) frames.send(Map.of("event", "metrics", "metrics", found));
            }
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }

    private void beat() {
        try {
            while (true) {
                Thread.sleep(BEAT_MS);
                Map<String, Object> alive = new HashMap<>();
                alive.put("event", "alive");
                alive.put("polling_ms", task.pollingMs());
                frames.send(alive);
            }
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }
}
