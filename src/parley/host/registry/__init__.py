"""Agents and catalogues elsewhere that tenants have registered: checked, and watched from then on."""
