"""The strategies of pods, of their status and resize, and of pod templates."""
