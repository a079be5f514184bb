"""How engines in several processes tell each other where to look: hints, and what carries them."""
