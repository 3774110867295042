"""The device's side of the fleet: joining it, finding and asking its server."""
