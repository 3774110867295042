"""An aggregator as a device of an upper one: its fleet is a region of that one's (docs/scaling.md, "Regions")."""
