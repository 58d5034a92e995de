"""Source tasks on Spark: the driver, the launcher, the task's process."""
