"""Forms: JSON Schemas as fields that people fill in, and answers checked against them; for agents and for the CLI."""
