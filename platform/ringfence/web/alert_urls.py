"""The routes of the alerts' pages, below `/ui/alerts`."""

from django.urls import path

from ringfence.web import alerts as pages

urlpatterns = [
    path("", pages.alerts),
    path("/rules/new", pages.new_rule),
    path("/rules/<int:number>", pages.edit_rule),
    path("/rules/<int:number>/delete", pages.delete_rule),
    path("/destinations/new", pages.new_destination),
    path("/destinations/<int:number>", pages.edit_destination),
    path("/destinations/<int:number>/delete", pages.delete_destination),
    path("/destinations/<int:number>/test", pages.test_destination),
]
