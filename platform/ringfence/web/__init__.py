"""The pages under `/ui/`: rendered on the server, and kept live by one event stream per page."""
