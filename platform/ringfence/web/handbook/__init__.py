"""The documents of the product, at `/ui/docs`."""
