"""Speech: networks that write characters, trained and read by connectionist temporal classification."""
