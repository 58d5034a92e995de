package io.ringfence.connect;

import java.util.Map;
import org.apache.kafka.connect.errors.ConnectException;

/** A record that a transform or converter could not take, where that is not tolerated: which one, and why. */
final class BadRecord extends ConnectException {
    /** As `connectors/java/task.py` reads it. */
    final transient Map<String, Object> told;

    BadRecord(Map<String, Object> told, Exception why) {
        super(why);
        this.told = told;
    }
}
