"""The tutorial, followed as a newcomer does: `pages` reads what it says to do, `shells` are its terminals."""
