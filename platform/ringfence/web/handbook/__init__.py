"""The product's documentation, at `/ui/docs`."""
