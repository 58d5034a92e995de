"""Lists and replays the records of dead letter queues."""
