"""The routes of the alerts' pages, below `/ui/alerts`."""

from django.urls import path

from ringfence.web import alerts

urlpatterns = [
    path("", alerts.alerts),
    path("/rules/new", alerts.new_rule),
    path("/rules/<int:number>", alerts.edit_rule),
    path("/rules/<int:number>/delete", alerts.delete_rule),
    path("/destinations/new", alerts.new_destination),
    path("/destinations/<int:number>", alerts.edit_destination),
    path("/destinations/<int:number>/delete", alerts.delete_destination),
    path("/destinations/<int:number>/test", alerts.test_destination),
]
