"""The platform's topics: the records of the config and status topics, their state, and how a topic is read."""
