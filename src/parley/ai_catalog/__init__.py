"""AI Catalog: a list of agents and other artifacts as one JSON document. Only the format; nothing is fetched here."""
