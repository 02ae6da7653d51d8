"""Incidents that a person has read, and wants to see no more."""

from holdfast.dashboard.access.user import Role
from holdfast.dashboard.desk import Desk
from holdfast.dashboard.operation import acts
from holdfast.dashboard.reading.incidents import find_incident
from holdfast.dashboard.shapes.incidents import IncidentDone
from holdfast.dashboard.shapes.words import WithId
from holdfast.incidents.book import forget_incidents
from holdfast.phrases import Phrase


@acts("incidents.forget", "/incidents/{id}/forget", Role.ADMIN)
async def forget_incident(desk: Desk, asked: WithId) -> IncidentDone:
    """Forget an incident and its evidence in the store."""
    incident = await find_incident(desk, asked.id)
    desk.note(before=incident.summary)
    await desk.ask(forget_incidents(desk.verbs, (incident.id,)))
    desk.note(after=Phrase("noted.forgotten"))
    return IncidentDone(id=incident.id)
