"""What a device does with its data: targets, local training, scores, data impressions."""
