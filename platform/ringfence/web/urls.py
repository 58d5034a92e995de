"""The routes of the pages, below `/ui`."""

urlpatterns: list[object] = []
