"""The routes of the pages about incidents, below `/ui/incidents`."""

from django.urls import path

from ringfence.web import alerts, incidents

urlpatterns = [
    path("", alerts.open_incidents),
    path("/rules", alerts.rules),
    path("/rules/new", alerts.new_rule),
    path("/rules/<int:number>", alerts.edit_rule),
    path("/rules/<int:number>/delete", alerts.delete_rule),
    path("/destinations", alerts.destinations),
    path("/destinations/new", alerts.new_destination),
    path("/destinations/<int:number>", alerts.edit_destination),
    path("/destinations/<int:number>/all-rules", alerts.tell_by_all_rules),
    path("/destinations/<int:number>/delete", alerts.delete_destination),
    path("/destinations/<int:number>/test", alerts.test_destination),
    path("/silences", alerts.list_silences),
    path("/silences/<int:number>/end", incidents.end_silence),
    path("/<int:number>", incidents.incident),
    path("/<int:number>/acknowledge", incidents.acknowledge),
    path("/<int:number>/notes", incidents.add_note),
    path("/<int:number>/silence", incidents.silence),
]
