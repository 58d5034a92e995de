"""Share groups for API and pages alike: whose they are, who may do what, what was seen last, and acts."""
