"""Local methods that train the fleet's shared model, one file each."""
