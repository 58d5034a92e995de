"""YARN on this machine: Hadoop's own resource manager and node managers, in one JVM. Run as a module with a folder.

It ends with its parent. The folder's `conf` is for HADOOP_CONF_DIR; it holds core-site.xml once the cluster is ready.
"""

import sys
import threading
from pathlib import Path
from typing import Final

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from ringfence.local.jars import Coordinate, resolve
from ringfence.local.java import find_java

NODES: Final = 2
JARS: Final = Path(pyspark.__file__).parent / "jars"
_FILE_SYSTEM: Final = {"fs.defaultFS": "file:///"}
_SCHEDULERS: Final = "org.apache.hadoop.yarn.server.resourcemanager.scheduler"
_SETTINGS: Final = {
    **_FILE_SYSTEM,
    # The default one needs a file of queues.
    "yarn.resourcemanager.scheduler.class": f"{_SCHEDULERS}.fifo.FifoScheduler",
    "yarn.scheduler.minimum-allocation-mb": "128",
    "yarn.minicluster.yarn.nodemanager.resource.memory-mb": "6144",
    "yarn.nodemanager.resource.cpu-vcores": "16",
    # A full disk, or a JVM that reserves address space, is no matter here.
    "yarn.nodemanager.disk-health-checker.enable": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.vmem-check-enabled": "false",
}


def _coordinates() -> tuple[Coordinate, ...]:
    """The cluster of Hadoop's own tests, in the version that PySpark brings, and what it wants and does not name."""
    (api,) = JARS.glob("hadoop-client-api-*.jar")
    return (
        Coordinate("org.apache.hadoop", "hadoop-client-minicluster", api.stem.rpartition("-")[2]),
        Coordinate("org.junit.jupiter", "junit-jupiter-api", "5.11.4"),
        Coordinate("org.slf4j", "slf4j-reload4j", "1.7.36"),
        Coordinate("org.bouncycastle", "bcpkix-jdk18on", "1.82"),
        Coordinate("org.mockito", "mockito-core", "4.11.0"),
    )


def main(root: Path) -> None:
    (py4j,) = JARS.glob("py4j-*.jar")
    options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dtest.build.data={root}"]
    with (root / "jvm.log").open("w") as log:
        port = launch_gateway(
            jarpath=str(py4j),
            classpath=f"{resolve('hadoop', _coordinates())}/*",
            javaopts=[*options, "--add-opens=java.base/java.lang=ALL-UNNAMED"],
            java_path=str(find_java()),
            die_on_exit=True,
            redirect_stdout=log,
            redirect_stderr=log,
        )
    jvm = JavaGateway(gateway_parameters=GatewayParameters(port=port)).jvm
    settings = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
    for name, value in _SETTINGS.items():
        settings.set(name, value)
    cluster = jvm.org.apache.hadoop.yarn.server.MiniYARNCluster("ringfence", NODES, 1, 1)
    cluster.init(settings)
    cluster.start()
    assert cluster.waitForNodeManagersToConnect(120_000)
    (root / "conf").mkdir()
    output = jvm.java.io.FileOutputStream(str(root / "conf" / "yarn-site.xml"))
    cluster.getConfig().writeXml(output)  # with the addresses that it has now
    output.close()
    properties = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in _FILE_SYSTEM.items())
    (root / "conf" / "core-site.xml").write_text(f"<configuration>{properties}</configuration>")
    threading.Event().wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
