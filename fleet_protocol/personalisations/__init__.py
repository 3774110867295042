"""Settings of the personalisations, and the groups that one makes, one file each."""
