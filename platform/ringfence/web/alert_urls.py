"""The routes of the alert pages, below `/ui/alerts`."""

from django.urls import path

from ringfence.web import alerts, incidents

urlpatterns = [
    path("", alerts.alerts),
    path("/incidents/<int:number>", incidents.incident),
    path("/incidents/<int:number>/acknowledge", incidents.acknowledge),
    path("/incidents/<int:number>/silence", incidents.silence),
    path("/silences/<int:number>/end", incidents.end_silence),
    path("/rules/new", alerts.new_rule),
    path("/rules/<int:number>", alerts.edit_rule),
    path("/rules/<int:number>/delete", alerts.delete_rule),
    path("/destinations/new", alerts.new_destination),
    path("/destinations/<int:number>", alerts.edit_destination),
    path("/destinations/<int:number>/delete", alerts.delete_destination),
    path("/destinations/<int:number>/test", alerts.test_destination),
]
