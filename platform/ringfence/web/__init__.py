"""The pages under `/ui/`: server-rendered, live through one event stream a page."""
