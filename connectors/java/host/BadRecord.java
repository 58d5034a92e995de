package io.ringfence.connect;

import java.util.Map;
import org.apache.kafka.connect.errors.ConnectException;

/** Thrown if a transform or converter fails for a record and errors are not tolerated. Describes the record. */
final class BadRecord extends ConnectException {
    /** The fields that `connectors/java/task.py` reads. */
    final transient Map<String, Object> told;

    BadRecord(Map<String, Object> told, Exception why) {
        super(why);
        this.told = told;
    }
}
