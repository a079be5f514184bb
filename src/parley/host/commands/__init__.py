"""The command language in which agents ask for tools: `/agent`, `/fetch`, `/write` and others."""
