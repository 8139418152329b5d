"""Reports of `understudy validate`: what is in them, and their forms."""
