"""The platform's topics: records of the config and status topics, their state, and how topics are read."""
