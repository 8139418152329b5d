"""Users, what they ask to do, and the answer; `apiserver.authorization` has those who give it."""
