package io.ringfence.connect;

import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.util.Arrays;

/** Standard error of a process with several tasks: what a thread writes goes to its task's log, the rest to the process's. */
final class LogRouter extends OutputStream {
    private final OutputStream rest;

    private LogRouter(OutputStream rest) {
        this.rest = rest;
    }

    /** Replaces standard output and error. The logging library must not have been used yet, since it keeps the stream. */
    static void install() {
        System.setErr(new PrintStream(new LogRouter(System.err), true));
        System.setOut(System.err);
    }

    @Override
    public void write(int one) throws IOException {
        write(new byte[] {(byte) one}, 0, 1);
    }

    @Override
    public void write(byte[] bytes, int from, int length) throws IOException {
        Owner owner = Owner.current();
        if (owner == null || !owner.log(Arrays.copyOfRange(bytes, from, from + length))) rest.write(bytes, from, length);
    }
}
