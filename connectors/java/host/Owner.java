package io.ringfence.connect;

import java.nio.ByteBuffer;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;

/**
 * One of several tasks in a process. A thread belongs to the owner that was current when it was created, so that what it
 * logs, and the MBeans that it registers, are this task's.
 */
final class Owner {
    private static final InheritableThreadLocal<Owner> CURRENT = new InheritableThreadLocal<>();
    private static final int MOST = 2000;

    private final BlockingQueue<byte[]> log = new ArrayBlockingQueue<>(MOST);
    private volatile boolean closed;
    private volatile String name = "a task that has not started";

    /** Returns the owner of this thread, or null. */
    static Owner current() {
        return CURRENT.get();
    }

    /** Makes this thread, and those that it creates from now on, this owner's. */
    void own() {
        CURRENT.set(this);
    }

    void name(String task) {
        name = task;
    }

    @Override
    public String toString() {
        return name;
    }

    /**
     * Takes a piece of this task's log; returns false if the task has ended. It never waits, since other tasks may wait for
     * the lock of standard error meanwhile: a Python process that is frozen loses pieces of its log.
     */
    boolean log(byte[] piece) {
        if (closed) return false;
        log.offer(piece);
        return true;
    }

    /** Sends the log until the task ends. */
    void sendLog(Frames frames) {
        try {
            while (!closed) frames.send('L', ByteBuffer.wrap(log.take()));
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }

    void close() {
        closed = true;
        log.clear(); // a thread that outlives its task keeps its owner
    }
}
