"""Which Spark the tasks run on, and what nobody may change about it."""

import pytest

from ringfence.fencing.errors import Invalid
from ringfence.spark_settings import FIXED, is_local, spark_settings
from ringfence.worker_config import WorkerConfig

STANDALONE = {"spark.master": "spark://m:7077", "spark.authenticate.secret": "s"}


def test_spark_asks_for_a_secret_and_encrypts_unless_told_otherwise() -> None:
    for given in ({}, {"spark.master": "yarn"}, {"spark.master": "k8s://https://k:6443"}, STANDALONE):
        made = spark_settings(given, 1)
        assert (made["spark.authenticate"], made["spark.network.crypto.enabled"]) == ("true", "true")
        assert (made["spark.ui.enabled"], made["spark.ui.killEnabled"]) == ("false", "false")
    with pytest.raises(ValueError, match=r"needs spark\.authenticate\.secret"):
        spark_settings({"spark.master": "spark://m:7077"}, 1)
    made = spark_settings({"spark.master": "spark://m:7077", "spark.authenticate": "false"}, 1)
    assert made["spark.network.crypto.enabled"] == "false"


def test_without_settings_the_tasks_run_on_this_machine() -> None:
    made = spark_settings({"group.id": "g"}, 4)
    assert made["spark.master"] == "local[10]"
    assert made["spark.driver.host"] == "127.0.0.1"
    assert is_local(made)
    assert "group.id" not in made


def test_more_slots_do_not_mean_more_threads_of_the_driver() -> None:
    few, many = spark_settings({}, 2), spark_settings({}, 1000)
    threads = "spark.rpc.netty.dispatcher.numThreads"
    assert few[threads] == many[threads] == "4"
    assert spark_settings({threads: "8"}, 2)[threads] == "8"


def test_a_cluster_by_settings() -> None:
    given = {**STANDALONE, "spark.executor.cores": "4", "spark.driver.host": "w1"}
    made = spark_settings(given, 4)
    assert given.items() <= made.items()
    assert not is_local(made)
    assert "spark.driver.bindAddress" not in made
    assert made["spark.pyspark.python"]
    assert FIXED.items() <= made.items()


@pytest.mark.parametrize(
    ("given", "share"),
    [
        (STANDALONE, {"spark.cores.max": "10"}),
        ({**STANDALONE, "spark.executor.cores": "4"}, {"spark.cores.max": "12"}),
        ({**STANDALONE, "spark.cores.max": "30"}, {"spark.cores.max": "30"}),
        ({"spark.master": "k8s://https://k:6443"}, {"spark.executor.instances": "5"}),
        ({"spark.master": "yarn", "spark.executor.cores": "4"}, {"spark.executor.instances": "3"}),
        ({"spark.master": "yarn", "spark.executor.instances": "1"}, {"spark.executor.instances": "1"}),
        ({}, {}),
    ],
)
def test_each_worker_takes_the_share_of_a_cluster_that_its_tasks_need(
    given: dict[str, str], share: dict[str, str]
) -> None:
    """With Spark's defaults the first worker takes a standalone cluster whole, and the second never starts."""
    made = spark_settings(given, 4)
    shares = ("spark.cores.max", "spark.executor.instances")
    assert {name: made[name] for name in shares if name in made} == share


def test_a_share_that_cannot_be_reckoned_is_refused() -> None:
    with pytest.raises(Invalid, match=r"spark\.executor\.cores=two cannot be used: an integer"):
        WorkerConfig.from_environment({"CONNECT_SPARK_MASTER": "yarn", "CONNECT_SPARK_EXECUTOR_CORES": "two"})


def test_what_every_attempt_rests_on_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="every attempt runs once only"):
        spark_settings({"spark.task.maxFailures": "4"}, 1)
    with pytest.raises(Invalid, match=r"spark\.speculation=true cannot be used"):
        WorkerConfig.from_environment({"CONNECT_SPARK_SPECULATION": "true"})
    assert spark_settings({"spark.speculation": "false"}, 1)["spark.speculation"] == "false"
