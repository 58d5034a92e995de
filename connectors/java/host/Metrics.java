package io.ringfence.connect;

import java.lang.management.ManagementFactory;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Pattern;
import javax.management.JMException;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** Reads the numbers in a plugin's own MBeans, such as Debezium's source lag. */
final class Metrics {
    private static final Pattern NOT_ITS_OWN = Pattern.compile(
        "java\\..*|jdk\\..*|com\\.sun\\..*|JMImplementation|org\\.apache\\.logging.*|kafka\\.(?!connect\\.mirror).*|ringfence.*");
    private static final int MOST = 200;

    private Metrics() { }

    static Map<String, Object> read() {
        Map<String, Object> found = new LinkedHashMap<>();
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        for (ObjectName name : server.queryNames(null, null)) {
            if (NOT_ITS_OWN.matcher(name.getDomain()).matches()) continue;
            try {
                for (MBeanAttributeInfo each : server.getMBeanInfo(name).getAttributes()) {
                    if (!each.isReadable() || found.size() >= MOST) continue;
                    Object value = server.getAttribute(name, each.getName());
                    if (value instanceof Number || value instanceof Boolean) found.put(name + "/" + each.getName(), value);
                }
            } catch (JMException | RuntimeException gone) {
                // the bean was removed, or fails: go on with the others
            }
        }
        return found;
    }
}
