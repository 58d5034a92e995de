"""The checks of a proof: what the counts prove, what they refute, and what stays unknown. A module for each. Pure."""
