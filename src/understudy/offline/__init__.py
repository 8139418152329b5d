"""What a server of a release would say to objects, without a server (`understudy.validate`)."""
