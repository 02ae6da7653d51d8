"""How the dashboard comes to people: on a port of its own, or mounted in an app of yours."""
