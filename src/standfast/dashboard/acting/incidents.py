"""Incidents that a person has read, and wants to see no more."""

from standfast.dashboard.access.user import Role
from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import acts
from standfast.dashboard.reading.incidents import find_incident
from standfast.dashboard.shapes.incidents import IncidentDone
from standfast.dashboard.shapes.words import WithId
from standfast.incidents.book import forget_incidents
from standfast.phrases import Phrase


@acts("incidents.forget", "/incidents/{id}/forget", Role.ADMIN)
async def forget_incident(desk: Desk, asked: WithId) -> IncidentDone:
    """Forget an incident and its evidence in the store."""
    incident = await find_incident(desk, asked.id)
    desk.note(before=incident.summary)
    await desk.ask(forget_incidents(desk.verbs, (incident.id,)))
    desk.note(after=Phrase("noted.forgotten"))
    return IncidentDone(id=incident.id)
