"""The commands of `understudy`: each adds its flags, and imports what running it needs when it runs."""
